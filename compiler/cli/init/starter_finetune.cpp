// A starter spec that adapts a Hugging Face model to the user's data: low-rank adapters, with as much
// recomputation and as few bits of the frozen model as the memory requires.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/build_program.h"
#include "cli/init/starter_text.h"
#include "cli/input/spec_input.h"
#include "diag/render.h"
#include "hub/hub.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/data/jinja_template.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"
#include "runtime/log/units.h"
#include "spec/reader/paths.h"
#include "targets/executable/program_layout.h"

namespace hydrac::cli {

namespace {

namespace fs = std::filesystem;
using runtime::InputError;

// LoRA's usual rate, ten times that of training all weights, and batch.
constexpr double kRate = 2e-4;
constexpr int64_t kSequencesAStep = 16, kEpochs = 3;
// A batch is made smaller until an epoch has so many of them.
constexpr int64_t kTuningStepsPerEpoch = 16;

// The costly one is tried last: a frozen model of 4 bits is made wide again before each matmul.
struct Savings {
  const char *base, *recompute;
};
constexpr Savings kSavings[] = {{"compute", "none"},
                                {"compute", "[norm, act]"},
                                {"compute", "block"},
                                {"nf4", "[norm, act]"},
                                {"nf4", "block"}};

std::string text_of_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) ? runtime::read_file(path) : "";
}

// The folder of a model, also of one that is named.
fs::path folder_of(const std::string& model) {
  if (!hub::is_name(model)) return model;
  try {
    return hub::paths_of(model, hub::Wanted::model).at(0);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--model {}: {}", model, error.what()));
  }
}

nlohmann::json config_of(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw InputError(
        fmt::format("--model: there is no folder {}; a model of Hugging Face's hub is hf:OWNER/NAME",
                    diag::printable(folder.string())));
  if (!fs::exists(folder / "config.json", ignored))
    throw InputError(fmt::format("--model: {} has no config.json: it is no model's folder", folder.string()));
  const std::string file = (folder / "config.json").string();
  const nlohmann::json config = runtime::parse_json(text_of_file(file), "--model: " + file);
  if (!config.is_object()) throw InputError(fmt::format("--model: {} is no JSON object", file));
  return config;
}

// The model's own chat template, or the format of hydrac's whose special tokens its tokenizer has; "none" if
// there is neither.
std::string chat_template_of(const fs::path& folder) {
  if (runtime::find_jinja_template((folder / "tokenizer.json").string())) return "own";
  const std::string tokenizer = text_of_file(folder / "tokenizer.json");
  const auto has = [&](const char* token) { return tokenizer.find(token) != std::string::npos; };
  if (has("<|eot_id|>") && has("<|start_header_id|>")) return "llama3";
  if (has("<|im_start|>")) return "chatml";
  return has("[INST]") ? "mistral" : "none";
}

// Tokens a sequence for a target's memory, as long as the model reads.
int64_t length_for(const targets::Target& target, const nlohmann::json& config) {
  const double gib = target.memory_gib;
  const int64_t wanted = target.is_cpu() ? 256 : gib < 8 ? 512 : gib < 20 ? 1024 : 2048;
  const char* name = config.contains("n_positions") ? "n_positions" : "max_position_embeddings";
  const nlohmann::json& length = runtime::json_field(config, name);
  return length.is_number_unsigned() ? std::min(wanted, length.get<int64_t>()) : wanted;
}

class FinetuneMaker {
 public:
  explicit FinetuneMaker(const StarterRequest& request)
      : request_(request),
        target_(*targets::find(request.target)),
        folder_(folder_of(request.model)),
        config_(config_of(folder_)),
        data_(look_at_data(request)) {}

  Starter make();

 private:
  void describe_data();
  void choose_steps();
  void choose_savings();
  std::string text() const { return fill_starter("finetune.yaml", words_); }
  std::vector<std::string> reasons() const;

  const StarterRequest& request_;
  const targets::Target& target_;
  const fs::path folder_;  // of the model
  const nlohmann::json config_;
  const StarterData data_;
  Words words_;
  std::vector<std::string> passed_over_;  // savings that do not suffice, and why
  int64_t length_ = 0, batch_ = kSequencesAStep;
};

void FinetuneMaker::describe_data() {
  words_["DATA"] =
      fmt::format("{}, about {} tokens", runtime::human_bytes(static_cast<uint64_t>(data_.bytes)),
                  runtime::human_count(static_cast<double>(data_.tokens)));
  if (!data_.items) return;
  const std::string name = chat_template_of(folder_);
  if (name == "none" && data_.messages)
    throw InputError(fmt::format(
        "--data: {} has messages, and the tokenizer of {} none of the special tokens with which hydrac's "
        "formats write them, and no chat template (docs/fine-tuning.md); prompt and completion need none",
        request_.data, request_.model));
  words_["CHAT"] = "  format: chat @# messages, or prompt and completion; only replies are learned\n";
  if (name != "none" && name != "own")
    words_["CHAT"] +=
        fmt::format("  chat_template: {} @# the special tokens that this tokenizer has\n", name);
  words_["CHAT_TEMPLATE"] = name;
}

void FinetuneMaker::choose_steps() {
  while (batch_ > 1 && batch_ * length_ > data_.tokens / kTuningStepsPerEpoch) batch_ /= 2;
  const int64_t steps = std::max<int64_t>(1, kEpochs * data_.tokens / (batch_ * length_));
  words_["BATCH"] = fmt::to_string(batch_);
  words_["STEPS_WHY"] = fmt::format("about {} steps", steps);
  // The number of steps is a guess: a twentieth of it is not longer than the run.
  words_["WARMUP"] = fmt::to_string(std::clamp<int64_t>(steps / 20, 0, 100));
  words_["EVAL"] = fmt::to_string(std::clamp<int64_t>(steps / 10, 5, 250));
}

// The first that fit the memory.
void FinetuneMaker::choose_savings() {
  for (const Savings& savings : kSavings) {
    words_["BASE"] = savings.base;
    words_["RECOMPUTE"] = savings.recompute;
    // How many steps an epoch has makes no difference to a plan.
    spec::Spec spec =
        load_starter(request_.file, text(), {"train.max_steps=1000", "train.lr_scheduler.warmup_steps=0"});
    complete_for_planning(spec);
    const PlannedProgram planned = plan_program(spec, {.offline = true});
    const auto human = [](int64_t bytes) { return runtime::human_bytes(static_cast<uint64_t>(bytes)); };
    const std::string needed = human(planned.compiled.plan.arena_bytes);
    if (planned.problem) {
      passed_over_.push_back(
          fmt::format("base: {}, recompute: {}: {} needed", savings.base, savings.recompute, needed));
      continue;
    }
    words_["MICRO"] = fmt::format("{} in memory at once, of {} a step", spec.train.micro_batch_size.value,
                                  runtime::counted(batch_, "sequence"));
    words_["MODEL"] =
        fmt::format("{} parameters; {} of {} planned",
                    runtime::human_count(static_cast<double>(targets::parameter_count(planned.compiled))),
                    needed, human(planned.limit.bytes));
    return;
  }
  throw InputError(
      fmt::format("{} does not fit {}, not even with 4-bit codes and everything computed again: {}",
                  request_.model, request_.target, passed_over_.back()));
}

std::vector<std::string> FinetuneMaker::reasons() const {
  std::vector<std::string> lines;
  const auto add = [&](const char* what, const std::string& why) {
    lines.push_back(fmt::format("{:<8} {}", what, why));
  };
  add("model",
      fmt::format("{} ({}): {}", request_.model,
                  runtime::json_string(config_, "model_type", "?", "config.json"), words_.at("MODEL")));
  add("adapter", fmt::format("rank 16 beside every linear layer; base: {}, recompute: {}", words_.at("BASE"),
                             words_.at("RECOMPUTE")));
  for (const std::string& passed : passed_over_) add("", "not " + passed);
  add("data", words_.at("DATA"));
  if (const auto name = words_.find("CHAT_TEMPLATE"); name != words_.end())
    add("", name->second == "own"
                ? "chat_template: the model's own"
                : fmt::format("chat_template: {}, by the tokenizer's special tokens", name->second));
  add("batch", fmt::format("sequences of {}, {}", length_, words_.at("MICRO")));
  add("steps", fmt::format("{} epochs, {}", kEpochs, words_.at("STEPS_WHY")));
  return lines;
}

Starter FinetuneMaker::make() {
  const fs::path folder = fs::path(request_.file).parent_path();
  length_ = length_for(target_, config_);
  const char* precision = target_.is_cpu() ? "fp32" : target_.has_bf16() ? "bf16" : "fp16";
  words_ = {{"TITLE", "Adapters (LoRA) that teach a model of Hugging Face's your data."},
            {"PRESET", "for " + request_.target},
            {"FILE", diag::printable(request_.file, 200)},
            {"NAME", run_name(request_.file)},
            {"TARGET", request_.target},
            {"FROM", yaml_quoted(hub::is_name(request_.model) ? request_.model
                                                              : spec::path_in(folder, request_.model))},
            {"PATH", yaml_quoted(spec::path_in(folder, request_.data))},
            {"VAL", data_.tokens < 10'000'000 ? "0.1" : "0.01"},
            {"LENGTH", fmt::to_string(length_)},
            {"LENGTH_WHY", data_.items ? "tokens; items that are longer are dropped"
                                       : "tokens that the model sees at once"},
            {"RATE", fmt::format("{}", kRate)},
            {"PRECISION", fmt::format("  precision: {}\n", precision)}};
  describe_data();
  choose_steps();
  choose_savings();
  if (request_.for_this_machine) say_auto(words_);
  Starter starter{text(), reasons()};
  load_starter(request_.file, starter.text, {});  // what is written is a spec without errors
  return starter;
}

}  // namespace

Starter make_finetune_starter(const StarterRequest& request) {
  return FinetuneMaker(request).make();
}

}  // namespace hydrac::cli
