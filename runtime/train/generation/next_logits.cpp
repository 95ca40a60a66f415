#include "runtime/train/generation/next_logits.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace hydrac::runtime {

namespace {

// Each as a float and what that leaves of it; -1 where there is none.
std::vector<float> in_two_floats(std::span<const double> numbers, int64_t count) {
  std::vector<float> pairs;
  for (int64_t i = 0; i < count; ++i) {
    const double number = numbers.empty() ? -1 : numbers[static_cast<size_t>(i)];
    const auto high = static_cast<float>(number);
    pairs.push_back(high);
    pairs.push_back(static_cast<float>(number - high));
  }
  return pairs;
}

}  // namespace

NextLogits::NextLogits(StepProgram& program)
    : program_(program),
      facts_(program.facts()),
      page_table_(static_cast<size_t>(facts_.cache.sequences * facts_.cache.pages_of_sequence), -1),
      has_new_pages_(!page_table_.empty()) {}

std::span<const float> NextLogits::next_logits(std::span<const int32_t> prompt, int64_t position) {
  const auto at = static_cast<int32_t>(position);
  if (facts_.cache.sequences > 0) {
    const Prompt alone{-1, prompt};
    return prefill({&alone, 1}, {&at, 1}).row(0);
  }
  std::vector<int32_t> tokens(static_cast<size_t>(facts_.context_length), 0);
  std::ranges::copy(prompt, tokens.begin());
  const Ports& ports = program_.ports();
  const PortBytes inputs[] = {port_bytes(ports.inputs.prompt, std::span(tokens)),
                              port_bytes(ports.inputs.position, std::span(&at, 1))};
  program_.write_ports(inputs);
  program_.compute(Function::generate);
  return program_.read_as<float>(ports.results.logits).first(static_cast<size_t>(ports.results.vocab_size));
}

LogitRows NextLogits::prefill(std::span<const Prompt> prompts) {
  std::vector<int32_t> ends;
  for (const Prompt& prompt : prompts) ends.push_back(static_cast<int32_t>(prompt.tokens.size()) - 1);
  return prefill(prompts, ends);
}

LogitRows NextLogits::prefill(std::span<const Prompt> prompts, std::span<const int32_t> ends) {
  const CacheShape& cache = facts_.cache;
  const auto count = static_cast<size_t>(cache.prompts), length = static_cast<size_t>(cache.prompt_tokens);
  if (prompts.size() > count) throw std::logic_error("more prompts than prefill takes");
  std::vector<int32_t> tokens(count * length, 0), rows(count, -1), all_ends(count, 0);
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].tokens.empty() || prompts[i].tokens.size() > length)
      throw std::logic_error("a prompt of a length that prefill does not take");
    std::ranges::copy(prompts[i].tokens, tokens.begin() + static_cast<std::ptrdiff_t>(i * length));
    rows[i] = static_cast<int32_t>(prompts[i].sequence);
    all_ends[i] = ends[i];
  }
  const Ports& ports = program_.ports();
  std::vector<PortBytes> inputs = {port_bytes(ports.inputs.prompts, std::span(tokens)),
                                   port_bytes(ports.inputs.prompt_rows, std::span(rows)),
                                   port_bytes(ports.inputs.prompt_ends, std::span(all_ends))};
  add_new_pages(inputs);
  program_.write_ports(inputs);
  program_.compute(Function::prefill);
  return rows_of(ports.results.prompt_logits, cache.prompts);
}

LogitRows NextLogits::rows_of(Place port, int64_t rows) {
  const std::span<const float> all = program_.read_as<float>(port);
  return {all.data(), std::ssize(all) / rows, program_.ports().results.vocab_size};
}

void NextLogits::require_sequences(std::span<const int32_t> words) const {
  if (std::ssize(words) != facts_.cache.sequences)
    throw std::logic_error("decode takes a token of every sequence");
}

LogitRows NextLogits::decode(std::span<const int32_t> tokens, std::span<const int32_t> positions) {
  require_sequences(tokens);
  require_sequences(positions);
  const Ports& ports = program_.ports();
  std::vector<PortBytes> inputs = {port_bytes(ports.inputs.next_tokens, tokens),
                                   port_bytes(ports.inputs.next_positions, positions)};
  add_new_pages(inputs);
  program_.write_ports(inputs);
  program_.compute(Function::decode);
  return rows_of(ports.results.next_logits, facts_.cache.sequences);
}

void NextLogits::begin_decode_top(const Tokens& tokens, std::span<const int32_t> positions,
                                  const TopRequest& request) {
  const auto inverse_temperature = static_cast<float>(1 / request.temperature);
  const auto vocabulary =
      static_cast<int32_t>(std::min(request.vocabulary, program_.ports().results.vocab_size));
  const std::vector<float> uniforms = in_two_floats(request.uniforms, facts_.cache.sequences);
  require_sequences(positions);
  const InputPlaces& ports = program_.ports().inputs;
  std::vector<PortBytes> inputs = {port_bytes(ports.next_positions, positions)};
  if (tokens || !request.uniforms.empty()) inputs.push_back(port_bytes(ports.uniforms, std::span(uniforms)));
  if (tokens) {
    require_sequences(*tokens);
    inputs.push_back(port_bytes(ports.next_tokens, *tokens));
    inputs.push_back(port_bytes(ports.inverse_temperature, std::span(&inverse_temperature, 1)));
    inputs.push_back(port_bytes(ports.vocabulary, std::span(&vocabulary, 1)));
  }
  add_new_pages(inputs);
  program_.begin_decode(inputs, !tokens);
}

void NextLogits::set_page_table(std::span<const int32_t> pages) {
  if (pages.empty() || pages.size() != page_table_.size())
    throw std::logic_error("a page table that the program's cache does not have");
  page_table_.assign(pages.begin(), pages.end());
  has_new_pages_ = true;
}

void NextLogits::add_new_pages(std::vector<PortBytes>& inputs) {
  if (std::exchange(has_new_pages_, false))
    inputs.push_back(port_bytes(program_.ports().inputs.page_table, std::span(page_table_)));
}

std::span<const float> NextLogits::decoded_logits(int64_t sequence) {
  const Place all = program_.ports().results.next_logits;
  const int64_t stride = all.elements / facts_.cache.sequences;
  return program_.read_as<float>(all.part(sequence * stride, stride))
      .first(static_cast<size_t>(program_.ports().results.vocab_size));
}

}  // namespace hydrac::runtime
