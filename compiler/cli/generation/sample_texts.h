// The prompts that `hydrac sample` continues, and its answers: a line of JSON a prompt.
#pragma once
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "cli/input/arguments.h"
#include "runtime/data/corpus.h"
#include "runtime/train/generation/generate.h"

namespace hydrac::cli {

struct SamplePrompt {
  std::string text;
  std::vector<int32_t> ids;
  std::string where;  // "in.jsonl:3"; empty for --prompt
};

// Prompts of --file, a line {"prompt": "..."} each, or the one of `options`. InputError, with file and line:
// a line is something else, or the tokenizer has no ids for it; the file has no line; --prompt is given too.
// With --chat each is what a user says: its ids are those of `chat`'s template, which begins a reply.
std::vector<SamplePrompt> sample_prompts(const Arguments& arguments, const runtime::Tokenizer& tokenizer,
                                         const runtime::GenerateOptions& options,
                                         const runtime::DataSettings& chat);

// InputError for the first prompt that has more tokens than the model sees.
void require_within_context(const std::vector<SamplePrompt>& prompts, int64_t context_limit);

// Writes {"prompt": .., "prompt_tokens": n, "replies": [{"text": .., "tokens": n, "end": ".."}, ..]} for each
// prompt, in order, as soon as all its replies and all earlier ones are complete.
class ReplyWriter {
 public:
  // Writes to a new file, or to standard output if the path is empty. InputError if the file exists or cannot
  // be written.
  ReplyWriter(const std::string& path, const std::vector<SamplePrompt>& prompts, size_t replies);
  // Leaves whole lines, or no file.
  ~ReplyWriter();
  ReplyWriter(const ReplyWriter&) = delete;
  ReplyWriter& operator=(const ReplyWriter&) = delete;

  // Reply number `reply` of a prompt. RunError when it cannot be written.
  void add(size_t prompt, size_t reply, const runtime::Reply& text);

 private:
  void write(const SamplePrompt& prompt, const std::vector<runtime::Reply>& replies);

  const std::string path_;
  int file_ = -1;          // -1: standard output
  off_t whole_bytes_ = 0;  // of the file: whole lines
  const std::vector<SamplePrompt>& prompts_;
  const size_t replies_;
  std::map<size_t, std::map<size_t, runtime::Reply>> waiting_;  // by prompt, by reply
  size_t next_ = 0;                                             // prompt to be written
};

// "8192 tokens in 1.23 s, 6.66k tokens/s; 0.21 s for 4096 tokens of prompts, 3.98 ms for each of 256 steps".
// A cache in pages adds "; at most 37 of 40 pages in use, texts put back 3 times"
std::string speed_text(const runtime::GenerateCounts& counts);

}  // namespace hydrac::cli
