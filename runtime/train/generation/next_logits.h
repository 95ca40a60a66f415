// Logits of the next token from a language model's program: of a whole context, or with its KV cache. Called
// between steps.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/program/step_program.h"

namespace hydrac::runtime {

// The beginning of a sequence: 1 to CacheShape::prompt_tokens tokens.
struct Prompt {
  int64_t sequence = 0;  // of the cache; -1: nothing is kept
  std::span<const int32_t> tokens;
};

// Logits of several tokens, a row each, valid until the program computes others.
struct LogitRows {
  const float* first = nullptr;
  int64_t stride = 0, vocab = 0;
  std::span<const float> row(int64_t i) const { return {first + i * stride, static_cast<size_t>(vocab)}; }
};

// The search of decode_top(): among ids below `vocabulary`; sums are of probabilities at this temperature,
// which is not 0. `uniforms`: for each sequence the number in [0, 1) that draws TopLogits::drawn, or a
// negative one for the likeliest token; may be empty, for none.
struct TopRequest {
  double temperature = 1;
  int64_t vocabulary = 0;
  std::vector<double> uniforms = {};
};

class NextLogits {
 public:
  explicit NextLogits(StepProgram& program);

  // Logits [vocab] of the token after prompt[position]. `prompt` has at most ProgramFacts::context_length
  // tokens; with a cache CacheShape::prompt_tokens.
  std::span<const float> next_logits(std::span<const int32_t> prompt, int64_t position);

  // With a cache: computes at most CacheShape::prompts whole prompts and stores their keys and values. A row
  // each: the logits after its last token.
  LogitRows prefill(std::span<const Prompt> prompts);
  // Computes the next token of every sequence of the cache, at its position (from 0), where its keys and
  // values are stored. Earlier calls must have stored those of earlier positions. A row each: the logits
  // after the token. A sequence that is not generated may be given any token at position 0.
  LogitRows decode(std::span<const int32_t> tokens, std::span<const int32_t> positions);
  // For a cache in pages: the page table [sequences, pages_of_sequence], from the next prefill() or decode
  // step on. Entry [s, i] is the page with the tokens of sequence s from i * CacheShape::page_tokens on. It
  // is negative if there is none; keys and values that belong there are dropped. No two sequences share a
  // page. Before the first call no sequence has any. A sequence without pages is given a token at position 0.
  void set_page_table(std::span<const int32_t> pages);

  // Like decode(), but leaves the rows in the program's memory and returns the largest logits of each, valid
  // until the next results. It has two halves, so that a step can begin before the previous one is read.
  // Without tokens it continues with TopLogits::drawn of the last step, whose request may differ only in its
  // uniforms. Steps finish in order, and all of them before anything else of the program is called.
  using Tokens = std::optional<std::span<const int32_t>>;
  void begin_decode_top(const Tokens& tokens, std::span<const int32_t> positions, const TopRequest& request);
  std::vector<TopLogits> finish_decode_top() { return program_.finish_decode(); }
  std::vector<TopLogits> decode_top(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                    const TopRequest& request) {
    begin_decode_top(tokens, positions, request);
    return finish_decode_top();
  }
  // The whole row of a sequence, as the last decode() or decode_top() left it.
  std::span<const float> decoded_logits(int64_t sequence);

 private:
  // Prompts, and for each the index of the token whose logits are wanted.
  LogitRows prefill(std::span<const Prompt> prompts, std::span<const int32_t> ends);
  LogitRows rows_of(Place port, int64_t rows);
  // A word of every sequence.
  void require_sequences(std::span<const int32_t> words) const;
  // Appends the page table, where it changed since the last call of this.
  void add_new_pages(std::vector<PortBytes>& inputs);

  StepProgram& program_;
  const ProgramFacts facts_;
  std::vector<int32_t> page_table_;
  bool has_new_pages_ = false;  // that the program does not have yet
};

}  // namespace hydrac::runtime
