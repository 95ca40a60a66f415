// The functions that compute logits of the next token: of a whole context, or with a key-value cache.
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "runtime/program/laid_out_program.h"
#include "runtime/program/transfer.h"

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

std::span<const float> LaidOutProgram::next_logits(std::span<const int32_t> prompt, int64_t position) {
  const auto at = static_cast<int32_t>(position);
  if (layout_.cache.sequences > 0) {
    const Prompt alone{-1, prompt};
    return prefill({&alone, 1}, {&at, 1}).row(0);
  }
  refresh_working_copies();
  std::vector<int32_t> tokens(static_cast<size_t>(layout_.context_length), 0);
  std::ranges::copy(prompt, tokens.begin());
  if (layout_.inputs.own_prompt) {
    const OwnIds own = own_ids(layout_.inputs, tokens);
    write_ids(layout_.inputs.prompt, own.rows);
    write_floats(layout_.inputs.own_prompt, own.are_own);
  } else {
    write_ids(layout_.inputs.prompt, tokens);
  }
  write_scalar(layout_.inputs.position, at);
  compute(Function::generate);
  return result(layout_.results.logits).first(static_cast<size_t>(layout_.results.vocab_size));
}

LogitRows LaidOutProgram::prefill(std::span<const Prompt> prompts) {
  std::vector<int32_t> ends;
  for (const Prompt& prompt : prompts) ends.push_back(static_cast<int32_t>(prompt.tokens.size()) - 1);
  return prefill(prompts, ends);
}

LogitRows LaidOutProgram::prefill(std::span<const Prompt> prompts, std::span<const int32_t> ends) {
  const CacheShape& cache = layout_.cache;
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
  refresh_working_copies();
  write_ids(layout_.inputs.prompts, tokens);
  write_ids(layout_.inputs.prompt_rows, rows);
  write_ids(layout_.inputs.prompt_ends, all_ends);
  if (const std::optional<Input> pages = new_page_table()) copy_in(pages->offset, pages->bytes);
  compute(Function::prefill);
  const Place place = layout_.results.prompt_logits;
  return {result(place).data(), place.elements / cache.prompts, layout_.results.vocab_size};
}

void LaidOutProgram::require_sequences(std::span<const int32_t> words) const {
  if (words.size() != static_cast<size_t>(layout_.cache.sequences))
    throw std::logic_error("decode takes a token of every sequence");
}

LogitRows LaidOutProgram::decode(std::span<const int32_t> tokens, std::span<const int32_t> positions) {
  require_sequences(tokens);
  require_sequences(positions);
  refresh_working_copies();
  std::vector<Input> inputs = {{layout_.inputs.next_tokens.offset, std::as_bytes(tokens)},
                               {layout_.inputs.next_positions.offset, std::as_bytes(positions)}};
  if (const std::optional<Input> pages = new_page_table()) inputs.push_back(*pages);
  copy_inputs(inputs);
  compute(Function::decode);
  const Place place = layout_.results.next_logits;
  return {result(place).data(), place.elements / layout_.cache.sequences, layout_.results.vocab_size};
}

void LaidOutProgram::begin_decode_top(const Tokens& tokens, std::span<const int32_t> positions,
                                      const TopRequest& request) {
  const auto inverse_temperature = static_cast<float>(1 / request.temperature);
  const auto vocabulary = static_cast<int32_t>(std::min(request.vocabulary, layout_.results.vocab_size));
  const std::vector<float> uniforms = in_two_floats(request.uniforms, layout_.cache.sequences);
  const InputPlaces& places = layout_.inputs;
  require_sequences(positions);
  std::vector<Input> inputs = {{places.next_positions.offset, std::as_bytes(positions)}};
  if (tokens || !request.uniforms.empty())
    inputs.push_back({places.uniforms.offset, std::as_bytes(std::span(uniforms))});
  if (tokens) {
    require_sequences(*tokens);
    refresh_working_copies();
    inputs.push_back({places.next_tokens.offset, std::as_bytes(*tokens)});
    inputs.push_back({places.inverse_temperature.offset, std::as_bytes(std::span(&inverse_temperature, 1))});
    inputs.push_back({places.vocabulary.offset, std::as_bytes(std::span(&vocabulary, 1))});
  }
  if (const std::optional<Input> pages = new_page_table()) inputs.push_back(*pages);
  begin_decode(inputs, !tokens, top_stretch());
}

void LaidOutProgram::set_page_table(std::span<const int32_t> pages) {
  if (!layout_.inputs.page_table || std::ssize(pages) != layout_.inputs.page_table.elements)
    throw std::logic_error("a page table that the program's cache does not have");
  page_table_.assign(pages.begin(), pages.end());
  has_new_pages_ = true;
}

std::optional<LaidOutProgram::Input> LaidOutProgram::new_page_table() {
  if (!std::exchange(has_new_pages_, false)) return std::nullopt;
  return Input{layout_.inputs.page_table.offset, std::as_bytes(std::span(page_table_))};
}

void LaidOutProgram::begin_decode(std::span<const Input> inputs, bool goes_on, const Stretch&) {
  copy_inputs(inputs);
  if (goes_on) {
    std::vector<std::byte> tokens(static_cast<size_t>(layout_.results.drawn.elements) * sizeof(int32_t));
    copy_out(layout_.results.drawn.offset, tokens);
    copy_in(layout_.inputs.next_tokens.offset, tokens);
  }
  compute(Function::decode);
}

std::vector<TopLogits> LaidOutProgram::finish_decode_top() {
  const Stretch all = top_stretch();
  top_.resize(static_cast<size_t>(all.bytes));
  finish_decode(all, top_);
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

std::span<const float> LaidOutProgram::decoded_logits(int64_t sequence) {
  const Place all = layout_.results.next_logits;
  const int64_t stride = all.elements / layout_.cache.sequences;
  const Place row{all.offset + sequence * stride * static_cast<int64_t>(sizeof(float)), stride};
  return result(row).first(static_cast<size_t>(layout_.results.vocab_size));
}

}  // namespace hydrac::runtime
