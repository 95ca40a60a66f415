#include "runtime/app/train_main.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/app/exit_code.h"
#include "runtime/app/run_ranks.h"
#include "runtime/error.h"
#include "runtime/train/initial_weights.h"

namespace hydrac::runtime {

namespace {

// Memory is warm and algorithms are chosen by then.
constexpr int64_t kStepsBeforeProfile = 10;

// The settings of the command line. Absent options leave the settings as they are.
struct CommandLine {
  std::vector<std::string> data, val_data, reward;
  std::string tokenizer, embed, output;
  int64_t steps = 0, profile = 0;
  Resume resume = Resume::never;
  bool exact = false, quiet = false, check_kernels = false, no_graph = false, help = false;
};

struct Option {
  std::string_view name, value, help;  // value: what it takes; empty for a switch
  void (*set)(CommandLine&, const std::string& value);
  std::string_view letter = {};  // "-q"
  std::string_view word = {};    // the one value that a switch may be given
};

int64_t positive_number(std::string_view option, const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1)
    throw InputError(fmt::format("{} takes a whole number of at least 1, not \"{}\"", option, text));
  return number;
}

constexpr Option kOptions[] = {
    {"--data", "PATH", "train on these files, a path or pattern; once for each",
     [](CommandLine& line, const std::string& value) { line.data.push_back(value); }},
    {"--val-data", "PATH", "validate on these files; once for each",
     [](CommandLine& line, const std::string& value) { line.val_data.push_back(value); }},
    {"--tokenizer", "FILE", "the tokenizer.json of the data",
     [](CommandLine& line, const std::string& value) { line.tokenizer = value; }},
    {"--embed", "DIR", "the folder of the encoder that embeds replies",
     [](CommandLine& line, const std::string& value) { line.embed = value; }},
    {"--reward", "WORD",
     "what says how much replies are worth: a program, then its arguments; once for each word",
     [](CommandLine& line, const std::string& value) { line.reward.push_back(value); }},
    {"--steps", "N", "end after N steps; the learning rate's schedule stays that of the spec",
     [](CommandLine& line, const std::string& value) { line.steps = positive_number("--steps", value); }},
    {"--output", "DIR", "the run's folder",
     [](CommandLine& line, const std::string& value) { line.output = value; }},
    {"--resume", "",
     "continue the run in its folder from its newest checkpoint; auto: begin where there is none",
     [](CommandLine& line, const std::string& value) {
       line.resume = value.empty() ? Resume::required : Resume::if_possible;
     },
     "", "auto"},
    {"--exact", "", "refuse to resume where results would differ in their last bits",
     [](CommandLine& line, const std::string&) { line.exact = true; }},
    {"--quiet", "", "print nothing but errors",
     [](CommandLine& line, const std::string&) { line.quiet = true; }, "-q"},
    {"--check-kernels", "",
     "wait for every kernel and name the first that fails or writes NaN or infinity; slow",
     [](CommandLine& line, const std::string&) { line.check_kernels = true; }},
    {"--no-graph", "",
     "put calls on the GPU's queue one by one, for debuggers and profilers; the same results",
     [](CommandLine& line, const std::string&) { line.no_graph = true; }},
    {"--profile", "N",
     "let a profiler that waits for it (nsys profile -c cudaProfilerApi) record steps 11 to 10 + N",
     [](CommandLine& line, const std::string& value) { line.profile = positive_number("--profile", value); }},
    {"--help", "", "print this", [](CommandLine& line, const std::string&) { line.help = true; }},
};

const Option& option_named(std::string_view name) {
  for (const Option& option : kOptions) {
    if (name == option.name || (name == option.letter && !name.empty())) return option;
  }
  throw InputError(fmt::format("unknown option {}; --help lists them", name));
}

// The value of the switch words[i], with '=' at `equals`: empty, or its one word.
std::string switch_value(const Option& option, std::span<const char* const> words, size_t& i, size_t equals) {
  const std::string_view word = words[i];
  if (equals != std::string::npos) {
    const std::string_view value = word.substr(equals + 1);
    if (option.word.empty()) throw InputError(fmt::format("{} takes no value", option.name));
    if (value != option.word)
      throw InputError(fmt::format("{} takes {} or nothing, not \"{}\"", option.name, option.word, value));
    return std::string(value);
  }
  if (option.word.empty() || i + 1 == words.size() || words[i + 1] != option.word) return "";
  return words[++i];
}

CommandLine parse(std::span<const char* const> words) {
  CommandLine line;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    const size_t equals = word.find('=');
    const Option& option = option_named(word.substr(0, equals));
    std::string value;
    if (option.value.empty()) {
      value = switch_value(option, words, i, equals);
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (++i < words.size()) {
      value = words[i];
    } else {
      throw InputError(fmt::format("{} needs a value: {}", option.name, option.value));
    }
    option.set(line, value);
  }
  return line;
}

void print_help(std::string_view program, const TrainSettings& settings) {
  fmt::print("usage: {} [options]\n\ntrains {} into {}\n\noptions\n", program, settings.name,
             settings.train.run_dir.generic_string());
  for (const Option& option : kOptions) {
    const std::string letter = option.letter.empty() ? "" : fmt::format(",{}", option.letter);
    const std::string word = option.word.empty() ? "" : fmt::format("[{}]", option.word);
    fmt::print("  {:<18} {}\n", fmt::format("{}{} {}{}", option.name, letter, option.value, word),
               option.help);
  }
  fmt::print("\nExit codes: 0 fine, {}.\n", kExitCodesFrom2);
}

// The text of a value as a spec has it; a path's bytes need not be UTF-8.
std::string identity_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The identity names paths as the spec does, so that whatever runs the spec may resume the run.
void apply(const CommandLine& line, TrainSettings& settings) {
  TrainOptions& train = settings.train;
  if (!line.data.empty()) {
    settings.data.path = line.data;
    train.identity["data.path"] = identity_of(line.data);
  }
  if (!line.val_data.empty()) {
    settings.data.val_path = line.val_data;
    train.identity["data.val_path"] = identity_of(line.val_data);
  }
  if (!line.tokenizer.empty()) {
    settings.data.tokenizer = line.tokenizer;
    train.identity["data.tokenizer"] = identity_of(line.tokenizer);
  }
  const bool is_rewarded = train.objective.reward.timeout_seconds > 0;
  if (is_rewarded && line.reward.empty())
    throw InputError(
        "replies are rewarded (objective.name: grpo), and nothing says by what: give a program as --reward");
  if (!is_rewarded && !line.reward.empty())
    throw InputError("--reward is for objective.name: grpo; nothing that this program samples is rewarded");
  if (is_rewarded) train.identity["objective.reward.command"] = identity_of(line.reward);
  train.objective.reward.words = line.reward;
  if (!line.embed.empty() && settings.encoder.folder.empty())
    throw InputError("--embed is for an encoder as objective.embed, and this program has none");
  if (!line.embed.empty()) settings.encoder.folder = line.embed;
  if (line.steps > 0) train.max_steps = line.steps;
  if (!line.output.empty()) train.run_dir = line.output;
  train.resume = line.resume;
  train.exact = line.exact;
  train.quiet = line.quiet;
}

void use(OpenedEncoder opened, TrainOptions& train) {
  train.objective.encoder = std::move(opened.encoder);
  train.identity["objective.embed"] = std::move(opened.identity);
}

}  // namespace

int train_main(int argc, const char* const* argv, const TrainSettings& settings,
               const OpenCorpus& open_corpus, const MakeProgram& make_program,
               const OpenEncoder& open_encoder) {
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  return exit_code_of(name, [&] {
    const CommandLine line = parse({argv + 1, argv + argc});
    if (line.help) {
      print_help(name, settings);
      return kExitFine;
    }
    TrainSettings changed = settings;
    apply(line, changed);
    const std::unique_ptr<Ranks> started =
        ranks_of_run(changed.ranks, changed.cores, Starts::this_program, line.quiet);
    return end_together(started.get(), [&](Ranks* ranks) {
      const bool leads = !ranks || ranks->leads();
      if (!leads) changed.choices = choices_of_rank_0(*ranks);
      const std::filesystem::path encoder = changed.encoder.folder;
      if (!encoder.empty()) use(open_encoder(changed.encoder), changed.train);
      const Corpus corpus = open_corpus(changed.data, line.quiet || !leads);
      std::unique_ptr<LaidOutProgram> program;
      const auto make = [&](const RecordedChoices& recorded) -> LaidOutProgram& {
        program = make_program(recorded);
        if (line.check_kernels) program->check_kernels();
        if (line.no_graph) program->leave_graphs();
        if (line.profile > 0) program->profile_steps(kStepsBeforeProfile, line.profile);
        if (!encoder.empty()) WeightFiles(encoder).check_encoder(*program);
        return *program;
      };
      return train_run(std::move(changed), corpus, make, ranks);
    });
  });
}

}  // namespace hydrac::runtime
