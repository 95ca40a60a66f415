#include "runtime/train/generate.h"

#include <algorithm>
#include <span>

#include "runtime/error.h"
#include "runtime/log/signal.h"

namespace hydrac::runtime {

namespace {

int32_t first_token(const Tokenizer& tokenizer) {
  if (const auto end = tokenizer.end_of_text()) return *end;
  try {
    return tokenizer.encode("\n").at(0);
  } catch (const InputError&) {
    return 0;  // a character vocabulary of a corpus without line breaks
  }
}

}  // namespace

std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const GenerateOptions& options) {
  check_sample_options(options.sampling);
  if (options.prompt.empty()) return {first_token(tokenizer)};
  return tokenizer.encode(options.prompt);
}

int64_t generate(StepProgram& program, const Tokenizer& tokenizer, const GenerateOptions& options,
                 const std::function<void(std::string_view)>& emit) {
  std::vector<int32_t> ids = prompt_ids(tokenizer, options);
  const auto emit_some = [&](const std::string& text) {
    if (!text.empty()) emit(text);
  };
  StreamDecoder decoder(tokenizer);
  int64_t drawn = 0;
  while (drawn < options.max_new_tokens && !stop_requested()) {
    const auto context = std::min(ids.size(), static_cast<size_t>(program.context_length()));
    const auto window = std::span<const int32_t>(ids).last(context);
    std::span<const float> logits = program.next_logits(window, static_cast<int64_t>(context) - 1);
    // A model's vocabulary may be larger than its tokenizer's; those ids stand for nothing.
    logits = logits.first(std::min(logits.size(), static_cast<size_t>(tokenizer.vocab_size())));
    const int32_t id = sample_token(logits, options.sampling, ids.size());
    ++drawn;
    if (tokenizer.end_of_text() == id) break;
    ids.push_back(id);
    emit_some(decoder.push(id));
  }
  emit_some(decoder.finish());
  return drawn;
}

}  // namespace hydrac::runtime
