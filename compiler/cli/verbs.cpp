#include <fmt/format.h>

#include <algorithm>

#include "cli/input/locked_spec.h"
#include "cli/verb.h"
#include "cli/version.h"
#include "diag/suggest.h"
#include "runtime/app/exit_code.h"
#include "runtime/base/quote.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/data/source_kind.h"
#include "runtime/error.h"
#include "runtime/log/output.h"

namespace hydrac::cli {

namespace {

const Option kQuiet{"--quiet,-q", "", "print nothing but errors"};
const Option kForce{"--force", "", "overwrite files that were edited since they were written"};
const Option kAccept{"--accept", "",
                     "kernels that are kept stay although what hydrac would write there has changed"};
const Option kThreads{"--threads", "N", "as optimizations.threads=N"};
const Option kDump{"--dump", "DIR", "write each stage of the compiler as a numbered text file"};
const Option kMemory{"--memory", "GIB",
                     "the tensor memory it may take; without: what the target has, less a reserve"};
const Option kGenerate{"--generate", "", "the program that generates text, instead of the one that trains"};
const Option kBatch{"--batch", "N", "of --generate: texts that are generated side by side; without: 1"};
const Option kPromptTokens{"--prompt-tokens", "N", "of --generate: how long prompts are; without: 128"};
const Option kJson{"--json", "", "print one JSON object"};

}  // namespace

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table = {
      {"run",
       "SPEC [key=value ...]",
       "compile the spec and train (`hydrac SPEC` does the same)",
       {{"--resume", "",
         "continue the run in output.dir from its newest checkpoint; auto: begin where there is none",
         "auto"},
        {"--exact", "",
         "refuse to resume where libraries or algorithms are others and results would differ in their last "
         "bits"},
        {"--check-kernels", "",
         "wait for every kernel and name the first that fails or writes NaN or infinity; slow"},
        kLocked,
        kLock,
        kQuiet,
        kThreads,
        kMemory,
        kDump},
       run_verb},
      {"quickstart",
       "[key=value ...]",
       "train a small model right here, of a spec that is inside hydrac; the spec is left to be edited",
       {{"--data", "PATH", "a text to learn from; without: hydrac's own sources"},
        {"--output,-o", "FOLDER", "where spec, text and run go; without: quickstart"},
        kQuiet,
        kThreads,
        kMemory},
       quickstart_verb},
      {"init",
       "--task TASK --data PATH [--for TARGET] [-o FILE]",
       "write a commented spec for your data and hardware, with sizes that fit; asks for what is missing",
       {{"--task", "TASK", "char, language, series or finetune"},
        {"--data", "PATH", "a file or a pattern: text, JSONL; CSV for series; conversations for finetune"},
        {"--model", "FOLDER",
         "of finetune: the model, hf:OWNER/NAME or a folder as Hugging Face publishes them"},
        {"--for", "TARGET",
         "cpu, a GPU by name (rtx4070, a100-40gb), or auto: this machine, which is the default"},
        {"--tokenizer", "WHICH", "of language: byte, or the path of a tokenizer.json; without: byte"},
        {"--predict", "A,B", "of series: the columns to predict; without: the last one"},
        {"--classes", "N", "of series: the predicted column holds classes 0 to N-1"},
        {"--output,-o", "FILE", "where the spec goes; without: TASK.yaml"},
        {"--force", "", "replace a file that is there"}},
       init_verb},
      {"check",
       "SPEC [key=value ...]",
       "whether a run would begin, and what it needs: memory, data, weights; exit 2 where it would not",
       {{"--verbose,-v", "",
         "also print the resolved spec, every key with its value, the rest as its comment"},
        kGenerate,
        kBatch,
        kPromptTokens,
        kJson,
        kLocked,
        kLock,
        kThreads,
        kMemory,
        kDump},
       check_verb},
      {"explain",
       "SPEC [key=value ...]",
       "every kernel with its work, the memory map, what each pass decided",
       {kGenerate,
        kBatch,
        kPromptTokens,
        kJson,
        {"--kernels", "",
         "compile a GPU's kernels (no GPU needed) and show registers, spills and shared memory"},
        kLocked,
        kLock,
        kThreads,
        kMemory,
        kDump},
       explain_verb},
      {"emit",
       "SPEC -o FOLDER [key=value ...]",
       "write the program as source code that builds against the runtime alone",
       {{"--output,-o", "FOLDER", "where to; files there that are current stay untouched"},
        {"--vendor-runtime", "", "write the runtime's sources beside it, so that it builds by itself"},
        {"--hooks", "", "write hooks.cpp too, which is yours: functions that a step calls"},
        kForce,
        kAccept,
        kLocked,
        kLock,
        kQuiet,
        kThreads,
        kMemory,
        kDump},
       emit_verb},
      {"build",
       "SPEC -o FOLDER [key=value ...]",
       "emit the program with the runtime and compile it: FOLDER/build/train",
       {{"--output,-o", "FOLDER", "where to"}, kForce, kAccept, kLocked, kLock, kQuiet, kThreads, kMemory},
       build_verb},
      {"diff",
       "SPEC FOLDER | SPEC SPEC [key=value ...]",
       "the lines of an emitted program that are not as they would be emitted now (exit 1); or what changes "
       "between two specs",
       {{"--stat", "", "of a folder: names of files and numbers of lines only"},
        {"--quiet,-q", "", "of a folder: names of files only"},
        kLocked,
        kLock,
        kThreads,
        kMemory},
       diff_verb},
      {"verify",
       "SPEC [key=value ...]",
       "compare loss, gradients and three steps with LibTorch in float64, on a GPU also with themselves; "
       "exit 1 beyond tolerance",
       {{"--steps", "N", "optimizer steps"},
        {"--small", "", "shrink the model and its batches to the size of a test; key=value still wins"},
        {"--oracle", "PROGRAM", "hydrac-oracle, when it is not beside hydrac"},
        {"--keep", "DIR", "leave the job's files there"},
        kThreads},
       verify_verb},
      {"bench",
       "SPEC [key=value ...]",
       "time a training step and each of its kernels, or with --generate random weights that generate",
       {{"--steps", "N", "how many are timed; without: as many as fit in 1.5 s, of 20 to 300"},
        {"--ablate", "",
         "a table: each optimization of the spec taken away, and added to a plain fp32 program"},
        {"--combine", "A+B,A+KEY=VALUE",
         "of --ablate: combinations of the spec's optimizations, and of other keys' values, that are added "
         "to the plain program too"},
        {"--peer", "libtorch", "train the same model in LibTorch in the same run, and print the ratio"},
        {"--oracle", "PROGRAM", "hydrac-oracle, when it is not beside hydrac"},
        kGenerate,
        kBatch,
        kPromptTokens,
        kLocked,
        kLock,
        kJson,
        kThreads},
       bench_verb},
      {"tune",
       "SPEC [key=value ...]",
       "find the fastest program for this machine among those that compute the same, and write "
       "SPEC.lock.yaml",
       {{"--minutes", "N", "how long at most; without: 0.5, 2 or 10, as the effort says"},
        {"--effort", "LEVEL", "quick, normal or max: how much is tried, how often it is measured"},
        {"--objective", "WHAT", "time, memory or energy; without: time"},
        {"--numerics", "", "as tune.numerics=true"},
        {"--output,-o", "LOCK", "where to; without: SPEC.lock.yaml beside the spec"},
        kQuiet,
        kMemory},
       tune_verb},
      {"report",
       "RUN [RUN ...] | SPEC [key=value ...] | TABLE.json",
       "a page for a browser: curves of runs; a spec's step, memory and decisions; a table of `bench --json`",
       {{"--output,-o", "FILE", "the page, which needs no other file; without: report.html"}, kMemory},
       report_verb},
      {"data prepare",
       "PATH ... -o FOLDER",
       "learn a tokenizer from text, JSONL or JSON (files, folders, patterns), and write it as token shards "
       "that train fast",
       {{"--output,-o", "FOLDER", "where to; a folder that is not there yet, or that it has made before"},
        {"--vocab-size", "N", "tokens of the byte-level BPE that is learned; without: 32768"},
        {"--tokenizer", "WHICH", "instead of learning one: byte, char, or the path of a tokenizer.json"},
        {"--val-fraction", "F", "of each source's tokens, those that validate; without: 0.01"},
        {"--weight", "NAME=W",
         "a source's documents train W times: 2 twice, 0.5 half of them; for each source", "", true},
        {"--dedupe", "WHAT", "lines or documents: drop those that are the same as an earlier one"},
        {"--order", "HOW",
         "length or rarity: documents that train from easy to hard, for data.curriculum; without: shuffled"},
        {"--text-key", "KEY", "the field of JSON objects that holds the text; without: text"},
        {"--seed", "N", "draws which documents validate, and their order; without: 1337"},
        {"--threads", "N", "without: one a core; they change no byte"},
        kQuiet},
       data_prepare_verb},
      {"data show",
       "SPEC [key=value ...]",
       "training sequences as the model reads them, and which tokens it learns",
       {{"--sequences,-n", "N", "how many; without: 1"},
        {"--tokens", "", "a line a token: its place in its document, id, weight in the loss, text"},
        kQuiet},
       data_show_verb},
      {"sample",
       "RUN|CHECKPOINT|MODEL [key=value ...]",
       "continue a prompt with a run's newest checkpoint, with the given one (RUN/checkpoint-200), or with a "
       "folder as Hugging Face publishes models",
       {{"--prompt", "TEXT", "as sample.prompt=TEXT"},
        {"--max-new-tokens", "N", "as sample.max_new_tokens=N"},
        {"--temperature", "X", "as sample.temperature=X"},
        {"--top-k", "N", "as sample.top_k=N"},
        {"--top-p", "X", "as sample.top_p=X"},
        {"--min-p", "X", "as sample.min_p=X"},
        {"--repetition-penalty", "X", "as sample.repetition_penalty=X"},
        {"--stop", "TEXT", "as sample.stop=TEXT"},
        {"--seed", "N", "as sample.seed=N; reply r of a prompt has N + r"},
        {"--file", "FILE",
         "continue many prompts, a line {\"prompt\": \"...\"} of JSONL each, or a table's rows; answers are "
         "JSONL"},
        {"--replies,-n", "N", "texts for each prompt; without: 1"},
        {"--batch", "N", "texts that are generated side by side; without: 16"},
        {"--cache-memory", "GIB", "as sample.cache_memory=GIB: keys and values in pages that texts share"},
        {"--output,-o", "JSONL", "the file for the answers, a line a prompt; without: standard output"},
        kQuiet,
        {"--chat", "",
         "prompts are what a user says: the chat template begins a reply to each, which is printed"},
        {"--logits", "", "print the next token's logits behind the prompt as JSON, and no text"},
        kThreads},
       sample_verb},
      {"export",
       "RUN|CHECKPOINT -o FOLDER",
       "a checkpoint's model as Hugging Face publishes models: weights, configuration and tokenizer alone",
       {{"--output,-o", "FOLDER", "where to; a folder that is not there yet"},
        {"--dtype", "TYPE", "the weights' format: fp32, bf16 or fp16; without: as they are"},
        {"--push", "OWNER/NAME", "then upload it to Hugging Face's hub; a new repository is private"},
        kQuiet},
       export_verb},
      {"merge",
       "RUN|CHECKPOINT -o FOLDER",
       "the model of an adapter's run with the adapter in its weights, as Hugging Face publishes models; its "
       "logits are compared with those of base and adapter",
       {{"--output,-o", "FOLDER", "where to; a folder that is not there yet"},
        {"--dtype", "TYPE", "the weights' format: fp32, bf16 or fp16; without: as the base's files"},
        kQuiet},
       merge_verb},
      {"schema", "", "the spec language as JSON Schema", {}, schema_verb},
      {"keys",
       "[KEY ...]",
       "what a key, or a section's keys, take and mean; without: all of them, as Markdown",
       {},
       keys_verb},
      {"completion",
       "bash | zsh | fish",
       "a script with which a shell completes verbs, options, keys and their values",
       {{"--word", "TEXT", "of `completion words`, which the script calls: the word at the cursor"}},
       completion_verb},
      {"docs",
       "[PAGE]",
       "a page of the documentation, such as data or memory; without a page: which there are, by question",
       {},
       docs_verb},
      {"models",
       "",
       "the families of models that model.from reads, and what each can do, as Markdown",
       {},
       models_verb},
  };
  return table;
}

namespace {

std::string help_text() {
  std::string text =
      "hydrac compiles a YAML spec of a model into its training program, and runs it.\n\n"
      "usage: hydrac SPEC [key=value ...]\n       hydrac VERB ...\n\nverbs\n";
  for (const Verb& verb : verbs()) text += fmt::format("  {:<12} {}\n", verb.name, verb.help);
  text +=
      "\n`hydrac --version`, with -v for the libraries that it finds; `hydrac VERB --help` lists a verb's "
      "options; `hydrac keys` every key of a spec.\n";
  text += fmt::format("Exit codes: 0 fine, 1 the thing looked for was found wanting, {}.\n",
                      runtime::kExitCodesFrom2);
  return text;
}

void print_help(const Verb& verb) {
  fmt::print("usage: hydrac {} {}\n\n{}\n", verb.name, verb.usage, verb.help);
  if (!verb.options.empty()) fmt::print("\noptions\n");
  for (const Option& option : verb.options) {
    const std::string word = option.word.empty() ? "" : "[" + option.word + "]";
    const std::string taken = option.value + word;
    fmt::print("  {:<24} {}\n", taken.empty() ? option.name : option.name + " " + taken, option.help);
  }
}

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : verbs()) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

}  // namespace

const Verb* take_verb(std::vector<std::string>& words) {
  for (const ptrdiff_t count : {1, 2}) {
    if (static_cast<ptrdiff_t>(words.size()) < count) break;
    const Verb* verb = find_verb(fmt::format("{}", fmt::join(words.begin(), words.begin() + count, " ")));
    if (!verb) continue;
    words.erase(words.begin(), words.begin() + count);
    return verb;
  }
  return nullptr;
}

std::vector<std::string> second_words(const std::string& word) {
  std::vector<std::string> list;
  for (const Verb& verb : verbs()) {
    if (verb.name.starts_with(word + " ")) list.emplace_back(verb.name.substr(word.size() + 1));
  }
  return list;
}

bool looks_like_spec(const std::string& word) {
  return runtime::has_extension(word, ".yaml") || runtime::has_extension(word, ".yml") ||
         word.find('/') != std::string::npos;
}

namespace {

// Failures go by the verb's name; a run that fails is one that trains.
int run_checked(const Verb& verb, const Arguments& arguments) {
  if (verb.name == "run" || verb.name == "quickstart") return verb.run(arguments);
  const auto failed = [&](const std::string& message) {
    runtime::print_error(fmt::format("hydrac: {} failed: {}\n", verb.name, runtime::safe_message(message)));
    return runtime::kExitRunFailed;
  };
  try {
    return verb.run(arguments);
  } catch (const runtime::FileError& error) {
    return failed(error.elsewhere);
  } catch (const runtime::RunError& error) {
    return failed(error.what());
  }
}

int run_words(std::vector<std::string> words) {
  if (words.empty()) {
    runtime::print_error(help_text());
    return kBadInput;
  }
  if (words[0] == "--help" || words[0] == "-h" || (words[0] == "help" && words.size() == 1)) {
    fmt::print("{}", help_text());
    return kFine;
  }
  // `hydrac help VERB` is `hydrac VERB --help`.
  if (words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (words[0] == "--version") {
    words.erase(words.begin());
    const Arguments arguments = parse_arguments(words, {{"--verbose,-v", "", ""}});
    fmt::print("{}", version_line());
    if (arguments.has("--verbose")) fmt::print("{}", library_versions());
    return kFine;
  }
  const Verb* verb = take_verb(words);
  if (verb) {
    // its words are taken
  } else if (const std::vector<std::string> seconds = second_words(words[0]); !seconds.empty()) {
    if (words.size() == 1 || words[1] != "--help") {
      throw runtime::InputError(fmt::format("{0} takes {1}: `hydrac {0} --help` says what they do", words[0],
                                            diag::one_of(seconds)));
    }
    for (const std::string& second : seconds)
      fmt::print("hydrac {0} {1}: {2}\n", words[0], second, find_verb(words[0] + " " + second)->help);
    return kFine;
  } else if (looks_like_spec(words[0]) || words[0][0] == '-') {
    verb = find_verb("run");
  } else {
    std::vector<std::string> names;
    for (const Verb& known : verbs()) names.emplace_back(known.name);
    const std::string nearest = diag::nearest(words[0], names);
    throw runtime::InputError(fmt::format(
        "\"{}\" is neither a verb nor a spec (*.yaml){}", words[0],
        !nearest.empty() ? fmt::format("; did you mean {}?", nearest) : "; `hydrac --help` lists the verbs"));
  }
  const auto options_end = std::ranges::find(words, "--");
  if (std::find(words.begin(), options_end, "--help") != options_end) {
    print_help(*verb);
    return kFine;
  }
  return run_checked(*verb, parse_arguments(words, verb->options));
}

}  // namespace

int main(const std::vector<std::string>& words) {
  return runtime::exit_code_of("hydrac", [&] {
    try {
      return run_words(words);
    } catch (const Reported& reported) {
      return reported.exit_code;
    }
  });
}

}  // namespace hydrac::cli
