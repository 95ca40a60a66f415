#include "cli/generation/sample_texts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"
#include "runtime/json/json_input.h"
#include "runtime/log/output.h"
#include "runtime/log/units.h"
#include "runtime/text/documents.h"
#include "runtime/text/text_corpus.h"

namespace hydrac::cli {

using runtime::InputError;

namespace {

std::string prompt_of_line(const std::string& line, const std::string& where) {
  const nlohmann::json record = runtime::parse_json(line, where);
  constexpr const char* wanted = "a line is {\"prompt\": \"...\"}";
  if (!record.is_object()) throw InputError(fmt::format("{}: this is no object; {}", where, wanted));
  for (const auto& [key, value] : record.items()) {
    if (key != "prompt")
      throw InputError(fmt::format("{}: unknown key {}; {}", where, runtime::in_quotes(key), wanted));
    if (!value.is_string()) throw InputError(fmt::format("{}: \"prompt\" is no text; {}", where, wanted));
  }
  if (record.empty()) throw InputError(fmt::format("{}: there is no \"prompt\"; {}", where, wanted));
  return record["prompt"].get<std::string>();
}

// Prompts of a table, a JSON array or a packed file.
std::vector<SamplePrompt> prompts_of_records(const std::string& path) {
  std::vector<SamplePrompt> prompts;
  runtime::for_each_document({{path, path}}, "prompt", [&](const runtime::Document& prompt) {
    prompts.push_back({std::string(prompt.text), {}, place_of(prompt.file, prompt.kind, prompt.line)});
  });
  if (prompts.empty()) throw InputError(fmt::format("{} has no prompt", path));
  return prompts;
}

std::vector<SamplePrompt> prompts_of_file(const std::string& path) {
  if (std::filesystem::is_directory(path))
    throw InputError(fmt::format("{} is a folder: --file is one of lines {{\"prompt\": \"...\"}}", path));
  const runtime::SourceKind kind = runtime::source_kind(path);
  const bool is_plain = runtime::packing(path) == runtime::Packing::none &&
                        kind != runtime::SourceKind::json && kind != runtime::SourceKind::table;
  if (!is_plain && has_records(kind)) return prompts_of_records(path);
  std::ifstream file(path);
  if (!file) throw InputError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  std::vector<SamplePrompt> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    prompts.push_back({prompt_of_line(line, where), {}, where});
  }
  if (prompts.empty()) throw InputError(fmt::format("{} has no line with a prompt", path));
  return prompts;
}

// A prompt written for a tokenizer that puts no beginning before it.
void note_twofold_beginning(const std::vector<SamplePrompt>& prompts, const runtime::Tokenizer& tokenizer) {
  const auto begins_twice = [&](const SamplePrompt& prompt) {
    return prompt.ids.size() > 1 && prompt.ids[0] == prompt.ids[1] && tokenizer.is_special(prompt.ids[0]);
  };
  const auto found = std::ranges::find_if(prompts, begins_twice);
  if (found != prompts.end())
    runtime::print_error(
        runtime::safe_message(fmt::format(
            "note: {}the prompt begins with {} twice, because the tokenizer puts it before every prompt",
            found->where.empty() ? "" : found->where + ": ", tokenizer.token_bytes(found->ids[0]))) +
        "\n");
}

}  // namespace

std::vector<SamplePrompt> sample_prompts(const Arguments& arguments, const runtime::Tokenizer& tokenizer,
                                         const runtime::GenerateOptions& options,
                                         const runtime::DataSettings& chat) {
  check_generate_options(options);
  const std::optional<std::string> file = arguments.value("--file");
  if (file && arguments.has("--prompt")) throw InputError("--prompt and --file are both given: choose one");
  std::vector<SamplePrompt> prompts =
      file ? prompts_of_file(*file) : std::vector<SamplePrompt>{{options.prompt, {}, ""}};
  if (arguments.has("--chat")) {
    std::vector<std::string> said;
    for (const SamplePrompt& prompt : prompts) said.push_back(prompt.text);
    const std::vector<std::string> texts = runtime::chat_prompts(chat, said);
    for (size_t i = 0; i < prompts.size(); ++i) prompts[i].ids = tokenizer.encode(texts[i]);
    return prompts;
  }
  for (SamplePrompt& prompt : prompts) {
    runtime::GenerateOptions own = options;
    own.prompt = prompt.text;
    try {
      prompt.ids = prompt_ids(tokenizer, own);
    } catch (const InputError& error) {
      if (prompt.where.empty()) throw;
      throw InputError(fmt::format("{}: {}", prompt.where, error.what()));
    }
  }
  if (!arguments.has("--quiet")) note_twofold_beginning(prompts, tokenizer);
  return prompts;
}

void require_within_context(const std::vector<SamplePrompt>& prompts, int64_t context_limit) {
  for (const SamplePrompt& prompt : prompts) {
    if (static_cast<int64_t>(prompt.ids.size()) <= context_limit) continue;
    throw InputError(fmt::format("{}the prompt has {} tokens, and the model sees {}",
                                 prompt.where.empty() ? "" : prompt.where + ": ", prompt.ids.size(),
                                 context_limit));
  }
}

ReplyWriter::ReplyWriter(const std::string& path, const std::vector<SamplePrompt>& prompts, size_t replies)
    : path_(path), prompts_(prompts), replies_(replies) {
  if (path.empty()) return;
  // O_EXCL: replies took their time, and are not overwritten.
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ >= 0) return;
  if (errno == EEXIST) throw InputError(path + " is there already: choose another --output, or remove it");
  throw InputError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

// An empty file would be in the way of the next try.
ReplyWriter::~ReplyWriter() {
  if (file_ < 0) return;
  if (whole_bytes_ == 0 || ::ftruncate(file_, whole_bytes_) != 0) ::unlink(path_.c_str());
  ::close(file_);
}

void ReplyWriter::add(size_t prompt, size_t reply, const runtime::Reply& text) {
  waiting_[prompt][reply] = text;
  for (auto first = waiting_.find(next_); first != waiting_.end() && first->second.size() == replies_;
       first = waiting_.find(++next_)) {
    std::vector<runtime::Reply> replies;
    for (const auto& [number, one] : first->second) replies.push_back(one);
    write(prompts_[next_], replies);
    waiting_.erase(first);
  }
}

std::string speed_text(const runtime::GenerateCounts& counts) {
  const double seconds = counts.prefill_seconds + counts.decode_seconds;
  const double rate = static_cast<double>(counts.new_tokens) / std::max(seconds, 1e-9);
  std::string text =
      fmt::format("{} tokens in {:.2f} s, {} tokens/s; {:.2f} s for {} tokens of prompts", counts.new_tokens,
                  seconds, runtime::human_count(rate), counts.prefill_seconds, counts.prompt_tokens);
  if (counts.decode_steps > 0)
    text += fmt::format(", {:.3f} ms for each of {} steps",
                        1e3 * counts.decode_seconds / static_cast<double>(counts.decode_steps),
                        counts.decode_steps);
  if (counts.pages > 0)
    text += fmt::format("; at most {} of {} pages in use, texts put back {} times", counts.most_pages,
                        counts.pages, counts.texts_put_back);
  return text;
}

void ReplyWriter::write(const SamplePrompt& prompt, const std::vector<runtime::Reply>& replies) {
  nlohmann::ordered_json line = {{"prompt", prompt.text}, {"prompt_tokens", prompt.ids.size()}};
  line["replies"] = nlohmann::ordered_json::array();
  for (const runtime::Reply& reply : replies) {
    line["replies"].push_back(
        {{"text", reply.text}, {"tokens", reply.new_tokens}, {"end", to_string(reply.end)}});
  }
  const std::string text = line.dump() + "\n";
  if (file_ >= 0) {
    runtime::write_all(file_, std::as_bytes(std::span(text)), path_);
    whole_bytes_ += static_cast<off_t>(text.size());
  } else {
    fmt::print("{}", text);
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category());  // as print does
  }
}

}  // namespace hydrac::cli
