// A program's ports as places of its arena.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "runtime/program/laid_out_program.h"

namespace hydrac::runtime {

// If ranks share layers, a prompt is given as the rank's rows of its part of the vocabulary.
std::vector<PortBytes> LaidOutProgram::own_ports(std::span<const PortBytes> ports) {
  std::vector<PortBytes> own;
  for (const auto& [port, bytes] : ports) {
    if (std::ssize(bytes) != port.elements * int64_t{4})
      throw std::logic_error("an input of another size than the program reads");
    if (port != layout_.inputs.prompt || !layout_.inputs.own_prompt) {
      own.push_back({port, bytes});
      continue;
    }
    own_prompt_ = own_ids(layout_.inputs, {reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / 4});
    own.push_back(port_bytes(port, std::span(own_prompt_.rows)));
    own.push_back(port_bytes(layout_.inputs.own_prompt, std::span(own_prompt_.are_own)));
  }
  return own;
}

void LaidOutProgram::write_ports(std::span<const PortBytes> ports) {
  copy_inputs(own_ports(ports));
}

std::span<const std::byte> LaidOutProgram::read_port(Place port) {
  result_.resize(static_cast<size_t>(port.elements * 4));
  copy_out(port.offset, result_);
  return result_;
}

void LaidOutProgram::begin_decode(std::span<const PortBytes> inputs, bool goes_on) {
  if (!goes_on) refresh_working_copies();
  queue_decode(own_ports(inputs), goes_on, top_stretch());
}

void LaidOutProgram::queue_decode(std::span<const PortBytes> inputs, bool goes_on, const Stretch&) {
  copy_inputs(inputs);
  if (goes_on) {
    std::vector<std::byte> tokens(static_cast<size_t>(layout_.results.drawn.elements) * sizeof(int32_t));
    copy_out(layout_.results.drawn.offset, tokens);
    copy_in(layout_.inputs.next_tokens.offset, tokens);
  }
  compute(Function::decode, nullptr);
}

std::vector<TopLogits> LaidOutProgram::finish_decode() {
  const Stretch all = top_stretch();
  top_.resize(static_cast<size_t>(all.bytes));
  take_decoded(all, top_);
  std::vector<TopLogits> rows;
  for (int64_t i = 0; i < layout_.cache.sequences; ++i) rows.push_back(top_of(i, all.first));
  return rows;
}

LaidOutProgram::Stretch LaidOutProgram::top_stretch() const {
  const ResultPlaces& places = layout_.results;
  const Place all[] = {places.top_values, places.top_ids, places.top_sums, places.drawn};
  const int64_t first = std::ranges::min(all, {}, &Place::offset).offset;
  int64_t end = 0;
  for (const Place& place : all) end = std::max(end, place.offset + place.elements * int64_t{4});
  return {first, end - first};
}

TopLogits LaidOutProgram::top_of(int64_t sequence, int64_t first) const {
  const ResultPlaces& places = layout_.results;
  const int64_t count = layout_.cache.top;
  const auto at = [&](Place place, int64_t element) {
    return top_.data() + (place.offset - first) + element * int64_t{4};
  };
  const auto* values = reinterpret_cast<const float*>(at(places.top_values, sequence * count));
  const auto* ids = reinterpret_cast<const int32_t*>(at(places.top_ids, sequence * count));
  float sum = 0;
  int32_t drawn = -1;
  std::memcpy(&sum, at(places.top_sums, sequence), sizeof sum);
  std::memcpy(&drawn, at(places.drawn, sequence), sizeof drawn);
  return {std::span(values, static_cast<size_t>(count)), std::span(ids, static_cast<size_t>(count)), sum,
          drawn};
}

}  // namespace hydrac::runtime
