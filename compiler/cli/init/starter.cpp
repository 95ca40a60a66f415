#include "cli/init/starter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/build_program.h"
#include "cli/init/starter_text.h"
#include "cli/input/spec_input.h"
#include "diag/render.h"
#include "runtime/error.h"
#include "runtime/log/units.h"
#include "spec/reader/paths.h"
#include "targets/executable/program_layout.h"

namespace hydrac::cli {

namespace {

using runtime::InputError;

// How many parameters a model may have for each token of the data: ten with dropout and many passes, as
// nanoGPT's Shakespeare; one for text that is seen a few times.
constexpr int64_t kTextParameters = 1, kSmallDataParameters = 10;
// Twenty tokens a parameter are as many as a model of that size makes good use of (arXiv 2203.15556).
constexpr int64_t kTokensPerParameter = 20;
// How often data may be repeated: text four times (arXiv 2305.16264); characters and series with dropout.
constexpr int64_t kTextPasses = 4, kSmallDataPasses = 80;
constexpr int64_t kPassesBeforeDropout = 8, kLeastSteps = 100;
// A batch is made smaller until an epoch has so many of them.
constexpr int64_t kBatchesPerEpoch = 32;

struct Size {
  int64_t layers, hidden, heads, kv_heads;
};
// Sizes that are tried below a preset's own.
constexpr Size kSmaller[] = {{12, 768, 12, 12}, {8, 512, 8, 8}, {6, 384, 6, 6},
                             {4, 256, 4, 4},    {4, 128, 4, 4}, {2, 64, 4, 4}};

std::string preset_name(const StarterRequest& request) {
  const targets::Target& target = *targets::find(request.target);
  if (!target.is_cpu() && target.memory_gib == 0) {
    throw InputError(
        fmt::format("--for {}: its memory is not known; name the GPU, as rtx4070 or h100", request.target));
  }
  const bool series = request.task == StarterTask::series;
  const std::string size = target.is_cpu()                    ? "cpu"
                           : target.memory_gib < 8            ? "4gb"
                           : target.memory_gib < 20           ? "12gb"
                           : target.memory_gib < 60 || series ? "24gb"
                                                              : "80gb";
  return (series ? "series-" : "") + size;
}

// With something in place of what a preset leaves to the spec.
spec::Spec load_preset(const StarterRequest& request, const std::string& name) {
  std::vector<std::string> rest = {"name=preset", "target=" + request.target, "data.path=data"};
  if (request.task == StarterTask::series) rest.emplace_back("data.target=y");
  return load_starter(name, starter_file(presets(), name + ".yaml"), rest);
}

std::string list_text(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(yaml_quoted(word));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string recompute_text(const spec::Recompute& recompute) {
  using Mode = spec::Recompute::Mode;
  if (recompute.mode != Mode::list) return recompute.mode == Mode::block ? "block" : "none";
  return "[norm, act]";
}

double learning_rate(StarterTask task, int64_t parameters) {
  if (task == StarterTask::series) return 5e-4;
  return parameters < 3'000'000     ? 1.5e-3
         : parameters < 30'000'000  ? 1e-3
         : parameters < 250'000'000 ? 6e-4
                                    : 3e-4;
}

// 1234567 -> 1200000: nobody chooses 1234567.
int64_t two_digits(int64_t number) {
  int64_t unit = 1;
  while (number / unit >= 100) unit *= 10;
  return number / unit * unit;
}

class StarterMaker {
 public:
  explicit StarterMaker(const StarterRequest& request)
      : request_(request),
        series_(request.task == StarterTask::series),
        preset_name_(preset_name(request)),
        preset_(load_preset(request, preset_name_)),
        data_(look_at_data(request)) {}

  Starter make();

 private:
  struct Candidate {
    Size size;
    int64_t parameters = 0, arena_bytes = 0, micro_batch = 0;
    driver::MemoryLimit limit;
    bool fits = false;
    std::string passed_over;  // why it was not taken
  };

  void choose_batch();
  void choose_size();
  void keep_all_where_it_fits();
  void choose_steps();
  Candidate plan(const Size& size);
  std::string describe(const Size& size) const;
  std::vector<std::string> reasons() const;
  std::string text() const { return fill_starter(series_ ? "series.yaml" : "tokens.yaml", words_); }

  const StarterRequest& request_;
  const bool series_;
  const std::string preset_name_;
  const spec::Spec preset_;
  const StarterData data_;
  Words words_;
  int64_t length_ = 0, batch_ = 0;  // tokens a sequence, sequences a step
  int64_t vocab_size_ = 0;
  Candidate chosen_;
  std::vector<Candidate> passed_;
};

std::string human(int64_t bytes) {
  return runtime::human_bytes(static_cast<uint64_t>(bytes));
}

std::string count(int64_t number) {
  return runtime::human_count(static_cast<double>(number));
}

std::string StarterMaker::describe(const Size& size) const {
  return fmt::format("{} layers of {}", size.layers, size.hidden);
}

// Sequences of the preset's length, but at most 256 for characters; as many sequences a step as still leave
// an epoch some steps.
void StarterMaker::choose_batch() {
  length_ = preset_.train.sequence_len;
  if (request_.task == StarterTask::characters) length_ = std::min<int64_t>(length_, 256);
  batch_ = preset_.train.global_batch_size * preset_.train.sequence_len / length_;
  const int64_t positions = series_ ? data_.rows : data_.tokens;
  while (batch_ > 1 && batch_ * length_ > positions / kBatchesPerEpoch) batch_ /= 2;
  words_["LENGTH"] = fmt::to_string(length_);
  words_["BATCH"] = fmt::to_string(batch_);
  words_["BATCH_TOKENS"] = fmt::to_string(batch_ * length_);
}

StarterMaker::Candidate StarterMaker::plan(const Size& size) {
  words_["LAYERS"] = fmt::to_string(size.layers);
  words_["HIDDEN"] = fmt::to_string(size.hidden);
  words_["HEADS"] = fmt::to_string(size.heads);
  words_["KV_HEADS"] = fmt::to_string(size.kv_heads);
  std::vector<std::string> known;
  if (vocab_size_ > 0) known.push_back(fmt::format("model.vocab_size={}", vocab_size_));
  spec::Spec spec = load_starter(request_.file, text(), known);
  complete_for_planning(spec);
  vocab_size_ = spec.model.vocab_size;
  const PlannedProgram planned = plan_program(spec, {.offline = true});
  return {.size = size,
          .parameters = targets::parameter_count(planned.compiled),
          .arena_bytes = planned.compiled.plan.device_bytes(),
          .micro_batch = spec.train.micro_batch_size,
          .limit = planned.limit,
          .fits = !planned.problem};
}

void StarterMaker::choose_size() {
  std::vector<Size> sizes = {{preset_.model.num_hidden_layers, preset_.model.hidden_size,
                              preset_.model.num_attention_heads, preset_.model.num_key_value_heads}};
  for (const Size& size : kSmaller) {
    const Size& first = sizes.front();
    if (size.layers * size.hidden * size.hidden < first.layers * first.hidden * first.hidden)
      sizes.push_back(size);
  }
  const int64_t parameters_per_token =
      request_.task == StarterTask::language ? kTextParameters : kSmallDataParameters;
  for (const Size& size : sizes) {
    Candidate candidate = plan(size);
    const bool smallest = &size == &sizes.back();
    if (!candidate.fits)
      candidate.passed_over = fmt::format("{} needed", human(candidate.arena_bytes));
    else if (candidate.parameters > parameters_per_token * data_.tokens && !smallest)
      candidate.passed_over = fmt::format(
          "more than {} for each {} of the data",
          parameters_per_token == 1 ? "a parameter" : fmt::format("{} parameters", parameters_per_token),
          series_ ? "number" : "token");
    if (candidate.passed_over.empty()) {
      chosen_ = candidate;
      return keep_all_where_it_fits();
    }
    passed_.push_back(std::move(candidate));
  }
  throw InputError(fmt::format("not even {} fit {}: {}", describe(sizes.back()), request_.target,
                               passed_.back().passed_over));
}

// Drops recomputation, which costs time, and 8-bit moments, which change results, if as many sequences fit
// without them.
void StarterMaker::keep_all_where_it_fits() {
  for (const auto& [word, plain] : {std::pair{"RECOMPUTE", "none"}, std::pair{"STATE", "fp32"}}) {
    const std::string asked = std::exchange(words_[word], plain);
    if (asked == plain) continue;
    const Candidate kept = plan(chosen_.size);
    if (kept.fits && kept.micro_batch == chosen_.micro_batch)
      chosen_ = kept;
    else
      words_[word] = asked;
  }
}

void StarterMaker::choose_steps() {
  const int64_t positions = std::max<int64_t>(1, series_ ? data_.rows : data_.tokens);
  const int64_t passes = request_.task == StarterTask::language ? kTextPasses : kSmallDataPasses;
  const int64_t useful = kTokensPerParameter * chosen_.parameters;
  const int64_t repeated = passes * positions;
  const int64_t step = batch_ * length_, most = preset_.train.max_steps;
  const int64_t steps = two_digits(std::clamp(std::min(useful, repeated) / step, kLeastSteps, most));
  const double seen = static_cast<double>(steps * step) / static_cast<double>(positions);
  const bool drops = seen > static_cast<double>(kPassesBeforeDropout);
  words_["STEPS"] = fmt::to_string(steps);
  words_["STEPS_WHY"] = fmt::format("{:.{}f} passes over the data", seen, seen < 10 ? 1 : 0);
  words_["DROPOUT"] = drops ? "0.2" : "0";
  words_["DROPOUT_WHY"] =
      drops ? "because the data is seen many times" : "worth it where data is seen many times";
  words_["WARMUP"] = fmt::to_string(std::clamp<int64_t>(steps / 20, 1, 700));
  words_["EVAL"] = fmt::to_string(std::max<int64_t>(10, steps / 20));
}

Starter StarterMaker::make() {
  const std::string precision = fmt::format("  precision: {}\n", to_string(preset_.optimizations.precision));
  const std::filesystem::path folder = std::filesystem::path(request_.file).parent_path();
  const std::string tokenizer =
      request_.tokenizer == "byte" ? request_.tokenizer : spec::path_in(folder, request_.tokenizer);
  words_ = {{"NAME", run_name(request_.file)},
            {"TARGET", request_.target},
            {"PATH", yaml_quoted(spec::path_in(folder, request_.data))},
            {"PRECISION", precision},
            {"OPTIMIZATIONS", "optimizations:\n" + precision},
            {"LOSS", std::string(to_string(preset_.optimizations.loss))},
            {"RECOMPUTE", recompute_text(preset_.optimizations.recompute)},
            {"STATE", std::string(to_string(preset_.optimizations.optimizer_state))},
            {"QK_NORM", preset_.model.qk_norm ? "true" : "false"},
            {"TOKENIZER", request_.task == StarterTask::characters ? "char" : yaml_quoted(tokenizer)},
            {"FEATURES", list_text(data_.features)},
            {"PREDICTED", list_text(data_.predicted)},
            {"HEAD", request_.classes > 0 ? "classification" : "regression"},
            {"LABELS", fmt::to_string(request_.classes > 0 ? request_.classes
                                                           : static_cast<int64_t>(data_.predicted.size()))},
            {"VAL", data_.tokens < 10'000'000 ? "0.1" : "0.01"},
            {"RATE", "0.001"},
            {"STEPS", "1000"},
            {"WARMUP", "1"},
            {"EVAL", "1000"},
            {"DROPOUT", "0"}};
  choose_batch();
  choose_size();
  choose_steps();
  words_["RATE"] = fmt::format("{}", learning_rate(request_.task, chosen_.parameters));
  static constexpr const char* kTitles[] = {"A model that writes character by character.",
                                            "A language model, from scratch.",
                                            "A model that predicts columns of a series of numbers."};
  words_["TITLE"] = kTitles[static_cast<int>(request_.task)];
  words_["PRESET"] = fmt::format("for {}, preset {}", request_.target, preset_name_);
  words_["FILE"] = diag::printable(request_.file, 200);
  words_["MODEL"] = fmt::format("{} parameters; {} of {} planned", count(chosen_.parameters),
                                human(chosen_.arena_bytes), human(chosen_.limit.bytes));
  words_["DATA"] = series_ ? fmt::format("{} rows of {} numbers", count(data_.rows), data_.features.size())
                           : fmt::format("{}, about {} tokens", human(data_.bytes), count(data_.tokens));
  words_["MICRO"] = fmt::format("{} in memory at once, of {} a step", chosen_.micro_batch,
                                runtime::counted(batch_, "sequence"));
  if (request_.for_this_machine) say_auto(words_);
  Starter starter{text(), reasons()};
  load_starter(request_.file, starter.text, {});  // what is written is a spec without errors
  return starter;
}

std::vector<std::string> StarterMaker::reasons() const {
  std::vector<std::string> lines;
  const auto add = [&](const char* what, const std::string& why) {
    lines.push_back(fmt::format("{:<8} {}", what, why));
  };
  add("target", fmt::format("{}: {} of memory for tensors, preset {}", request_.target,
                            human(chosen_.limit.bytes), preset_name_));
  add("data", words_.at("DATA"));
  if (!data_.predicted.empty()) add("", fmt::format("predicts {}", fmt::join(data_.predicted, ", ")));
  if (!data_.left_out.empty())
    add("", fmt::format("not read, because it is text: {}", fmt::join(data_.left_out, ", ")));
  add("model", fmt::format("{}, {} parameters", describe(chosen_.size), count(chosen_.parameters)));
  for (const Candidate& passed : passed_)
    add("", fmt::format("not {}: {}", describe(passed.size), passed.passed_over));
  add("batch", fmt::format("{} of {} a step, {} at once", runtime::counted(batch_, "sequence"), length_,
                           chosen_.micro_batch));
  add("memory", fmt::format("{} planned", human(chosen_.arena_bytes)));
  add("steps", fmt::format("{}: {}", words_.at("STEPS"), words_.at("STEPS_WHY")));
  return lines;
}

}  // namespace

Starter make_starter(const StarterRequest& request) {
  return request.task == StarterTask::finetune ? make_finetune_starter(request)
                                               : StarterMaker(request).make();
}

}  // namespace hydrac::cli
