// Text from a language model, token by token.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizer.h"
#include "runtime/sample/sample.h"
#include "runtime/train/step_program.h"

namespace hydrac::runtime {

struct GenerateOptions {
  // What the text continues. When it is empty, the model is shown the tokenizer's end_of_text, where a new
  // document begins; without one a line break, and where the vocabulary has none, token 0.
  std::string prompt;
  int64_t max_new_tokens = 0;
  SampleOptions sampling;
};

// The ids that the model is shown for options.prompt, at least one. InputError: the prompt has no ids, or
// options are out of range; generate() throws the same.
std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const GenerateOptions& options);

// Hands the text that follows the prompt to `emit`, piece by piece, always whole characters. The model sees
// the last context_length() tokens. Ends after max_new_tokens, at end_of_text, or when a signal asks to stop
// (see runtime/log/signal.h). Returns the number of tokens drawn, end_of_text included. The same program,
// tokenizer and options give the same text.
int64_t generate(StepProgram& program, const Tokenizer& tokenizer, const GenerateOptions& options,
                 const std::function<void(std::string_view)>& emit);

}  // namespace hydrac::runtime
