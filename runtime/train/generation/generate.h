// Text from a language model, token by token: of one prompt, or of many in batches.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizer.h"
#include "runtime/program/step_program.h"
#include "runtime/sample/sample.h"

namespace hydrac::runtime {

struct GenerateOptions {
  // The text to continue, encoded as a prompt by itself. If that gives no ids, the model sees the tokenizer's
  // end_of_text(), which precedes a new document; without one a line break, and if the vocabulary has none,
  // token 0.
  std::string prompt;
  int64_t max_new_tokens = 0;
  std::vector<std::string> stop = {};  // a text ends before the first of them that it would contain
  SampleOptions sampling;
  bool log_probabilities = false;  // Reply::log_probabilities
  bool interruptible = true;       // a signal that asks to stop ends texts; false: it is not looked at
};

// InputError naming the option that is out of its range.
void check_generate_options(const GenerateOptions& options);

// The ids that the model sees for options.prompt, at least one. InputError: the prompt has no ids, or options
// are out of range; generate() throws the same.
std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const GenerateOptions& options);

// One text to be generated: at least one id to continue, and the seed of its sampling.
struct TextRequest {
  std::vector<int32_t> prompt;
  uint64_t seed = 0;
};

// Why a text is at its end.
enum class TextEnd {
  end_of_text,  // the model ended it, by one of Tokenizer::end_tokens()
  stop,         // one of GenerateOptions::stop
  length,       // max_new_tokens
  context,      // the program's context is full, and its prefill() does not take so many tokens
  interrupted   // a signal asked to stop, see runtime/log/signal.h
};
std::string_view to_string(TextEnd end);

struct Reply {
  std::string text;               // behind the prompt
  std::vector<int32_t> ids = {};  // drawn, the one that ends it included
  // If asked for: the logarithm of each drawn id's probability at temperature 1, among all ids of the model.
  // NaN if the program drew the id without returning its row, and the id is not among the largest logits.
  std::vector<double> log_probabilities = {};
  int64_t new_tokens = 0;  // drawn, the one that ends it included
  TextEnd end = TextEnd::interrupted;
};

// Events while texts are generated, each by its place among the requests.
struct TextEvents {
  // The next piece of a text, always whole characters.
  std::function<void(size_t request, std::string_view piece)> on_text = [](size_t, std::string_view) {};
  // A text is at its end. Texts end in no certain order.
  std::function<void(size_t request, const Reply&)> on_end = [](size_t, const Reply&) {};
};

// Counts of generate_batch(), for those who measure.
struct GenerateCounts {
  int64_t prompt_tokens = 0, new_tokens = 0;
  int64_t decode_steps = 0;
  double prefill_seconds = 0, decode_seconds = 0;  // sampling included
  // For a cache in pages: their number, the most that were in use, and how often a text was put back because
  // none was free.
  int64_t pages = 0, most_pages = 0, texts_put_back = 0;
};

// Generates the text of every request; options.prompt and options.sampling.seed are not read. A program with
// a cache (ProgramFacts::cache) generates as many texts at once as it has sequences, and starts the next
// request when a text ends. A program without a cache generates one text at a time, and computes the whole
// context for each token. A text that grows past context_length continues with its last context_length tokens
// in view if prefill() takes that many (each token then costs a whole context); else it ends there. A text
// does not depend on the other requests if rows of the program's matmuls do not depend on their number and
// place (docs/generating.md).
//
// With a cache in pages (CacheShape::pages) a text holds the pages of its tokens, and starts when those of
// its prompt are free. If a text needs a page and none is free, the text that started last gives its pages
// back. It restarts before later requests: its prompt is computed as before, then the tokens it had drawn,
// one a step. So its keys and values have the same bits, and it goes on as if nothing had happened. The pool
// must hold the longest text.
GenerateCounts generate_batch(StepProgram& program, const Tokenizer& tokenizer,
                              std::span<const TextRequest> requests, const GenerateOptions& options,
                              const TextEvents& events);

// Passes the text that follows options.prompt to `emit`, piece by piece. Returns the number of drawn tokens,
// including the one that ends it. The same program, tokenizer and options give the same text.
int64_t generate(StepProgram& program, const Tokenizer& tokenizer, const GenerateOptions& options,
                 const std::function<void(std::string_view)>& emit);

}  // namespace hydrac::runtime
