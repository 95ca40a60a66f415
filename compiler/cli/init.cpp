// `hydrac init`: a commented spec for the user's data and hardware, from flags or, on a terminal, from
// answers.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "cli/init/starter.h"
#include "cli/verb.h"
#include "runtime/base/quote.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/data/input_files.h"
#include "runtime/error.h"
#include "spec/keys/other_names.h"
#include "targets/cuda/machine.h"
#include "targets/target.h"

namespace hydrac::cli {

namespace {

using runtime::InputError;

constexpr std::string_view kTasks = "char, language, series or finetune";

// The value of an option, or the user's answer on a terminal. Without a terminal it is `fallback`; without a
// fallback an error names the option.
class Answers {
 public:
  explicit Answers(const Arguments& arguments)
      : arguments_(arguments), terminal_(::isatty(0) == 1 && ::isatty(1) == 1) {}

  std::string get(const std::string& option, const std::string& question, const std::string& fallback = "") {
    if (const auto given = arguments_.value(option)) return *given;
    if (terminal_) return ask(question, fallback);
    if (fallback.empty()) throw InputError(fmt::format("{} is missing: {}", option, question));
    return fallback;
  }

 private:
  static std::string ask(const std::string& question, const std::string& fallback) {
    for (;;) {
      fmt::print("{}{}: ", question, fallback.empty() ? "" : fmt::format(" [{}]", fallback));
      std::fflush(stdout);
      std::string line;
      if (!std::getline(std::cin, line)) throw InputError("no more answers");
      if (!line.empty()) return line;
      if (!fallback.empty()) return fallback;
    }
  }

  const Arguments& arguments_;
  bool terminal_;
};

StarterTask task_of(const std::string& word) {
  if (word == "char") return StarterTask::characters;
  if (word == "language") return StarterTask::language;
  if (word == "series") return StarterTask::series;
  if (word == "finetune") return StarterTask::finetune;
  throw InputError(fmt::format("--task {}: it is {}", word, kTasks));
}

std::string target_of(const std::string& word) {
  if (word == "auto" || word == "cuda") {
    const std::optional<std::string>& gpu = targets::detected_gpu();
    if (!gpu && word == "cuda") throw InputError("--for cuda: this machine has no GPU that hydrac can use");
    return gpu.value_or("cpu");
  }
  if (targets::find(word)) return word;
  throw InputError(fmt::format("--for {}: there is no such target; {}", word, spec::instead_of_target(word)));
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) list.push_back(word);
  return list;
}

void require_new(const std::string& file, bool force) {
  std::error_code ignored;
  if (!force && std::filesystem::exists(std::filesystem::symlink_status(file, ignored)))
    throw InputError(fmt::format("{} is there already; -o FILE names another, --force replaces it", file));
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    throw InputError(fmt::format("{}: there is no folder {}", file, folder.string()));
  if (std::filesystem::is_directory(file, ignored))
    throw InputError(fmt::format("{} is a folder; -o takes a file", file));
}

// --force replaces an older spec, and never what the new one is about.
void require_other_than_inputs(const StarterRequest& request) {
  namespace fs = std::filesystem;
  const auto require_other = [&](const fs::path& input, const char* option) {
    std::error_code ignored;
    if (!fs::equivalent(request.file, input, ignored)) return;
    throw InputError(
        fmt::format("{} is what {} names, and stays as it is; -o FILE names another", request.file, option));
  };
  for (const runtime::InputFile& file : runtime::expand_patterns({request.data}, ""))
    require_other(file.path, "--data");
  require_other(request.tokenizer, "--tokenizer");
  std::error_code ignored;
  for (fs::directory_iterator file(request.model, ignored), end; !ignored && file != end;
       file.increment(ignored))
    if (file->path().extension() != ".yaml") require_other(file->path(), "--model");
}

}  // namespace

int init_verb(const Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.overrides.empty()) {
    const std::string& extra =
        arguments.positional.empty() ? arguments.overrides[0] : arguments.positional[0];
    const bool expanded = arguments.has("--data") && std::filesystem::exists(extra);  // by the shell
    throw InputError(
        fmt::format("init takes options only; \"{}\" is none{}", extra,
                    expanded ? "; a pattern of files stands in quotes: --data 'data/*.txt'" : ""));
  }
  Answers answers(arguments);
  StarterRequest request;
  const std::string task = answers.get("--task", fmt::format("What to train: {}", kTasks));
  request.task = task_of(task);
  const bool series = request.task == StarterTask::series;
  const std::string target = answers.get(
      "--for", "For which hardware: cpu, a GPU as rtx4070 or h100, or auto for this machine", "auto");
  request.target = target_of(target);
  request.for_this_machine = target == "auto";
  const bool finetunes = request.task == StarterTask::finetune;
  if (finetunes)
    request.model =
        answers.get("--model", "The model: hf:OWNER/NAME, or a folder as Hugging Face publishes them");
  else if (arguments.has("--model"))
    throw InputError(fmt::format("--model is for --task finetune, not for {}", task));
  request.data = answers.get("--data", series ? "Data: a CSV file, or a pattern as data/*.csv"
                                              : "Data: a file of text or JSONL, or a pattern as data/*.txt");
  if (request.task == StarterTask::language)
    request.tokenizer =
        answers.get("--tokenizer", "Tokenizer: byte, or the path of a tokenizer.json", "byte");
  else if (arguments.has("--tokenizer"))
    throw InputError(fmt::format("--tokenizer is for --task language, not for {}", task));
  for (const char* option : {"--predict", "--classes"}) {
    if (!series && arguments.has(option))
      throw InputError(fmt::format("{} is for --task series, not for {}", option, task));
  }
  request.predict = split(arguments.value("--predict").value_or(""));
  request.classes = arguments.number("--classes", 0);
  request.file = answers.get("--output", "Where the spec goes", task + ".yaml");
  require_new(request.file, arguments.has("--force"));
  const Starter starter = make_starter(request);
  require_other_than_inputs(request);
  runtime::replace_file(request.file, starter.text);
  for (const std::string& line : starter.reasons) fmt::print("{}\n", runtime::printable(line));
  fmt::print(
      "\nwrote {0}\n  hydrac check {0}   shows every key with its default\n  hydrac {0}         trains\n",
      runtime::shell_quoted(request.file));
  return kFine;
}

}  // namespace hydrac::cli
