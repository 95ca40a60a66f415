#include "cli/tune_bench.h"

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>

#include "cli/input/spec_input.h"
#include "cli/output/program_memory.h"
#include "cli/verb.h"
#include "driver/memory_limit.h"
#include "driver/prediction.h"
#include "runtime/error.h"
#include "runtime/log/signal.h"
#include "spec/fit_keys.h"

namespace hydrac::cli {

namespace {

// Micro-batches of the two steps that stand for a whole one.
constexpr int64_t kShortPart = 1, kLongPart = 3;

}  // namespace

SpecRunner::SpecRunner(BuiltProgram built, bool in_parts)
    : built_(std::move(built)),
      steps_(*built_.program),
      micro_batches_(spec::micro_batches_of_step(built_.program->compiled().spec)),
      in_parts_(in_parts && micro_batches_ > kShortPart + kLongPart) {
  built_.program->steps().initialize();
}

// The longer part takes more than the shorter one by its micro-batches' time; the rest is the update.
double SpecRunner::seconds_in_parts(int64_t steps) {
  const double shorter = tune::median(steps_.run(steps, kShortPart));
  const double longer = tune::median(steps_.run(steps, kLongPart));
  const double micro_batch = (longer - shorter) / double(kLongPart - kShortPart);
  return longer + double(micro_batches_ - kLongPart) * micro_batch;
}

tune::Runner::Round SpecRunner::run(int64_t steps) {
  if (in_parts_) return {seconds_in_parts(steps), 0};
  const auto before = built_.program->energy_joules();
  Round round{tune::median(steps_.run(steps)), 0};
  const auto after = built_.program->energy_joules();
  if (before && after) round.joules = (*after - *before) / static_cast<double>(steps);
  return round;
}

void SpecRunner::warm_up() {
  steps_.run(1, in_parts_ ? kShortPart : tune::TimedSteps::kAllMicroBatches);
}

std::vector<tune::Runner::Call> SpecRunner::calls(int most) {
  std::vector<Call> list;
  for (targets::Exchangeable& call : built_.program->exchangeable(most))
    list.push_back({{call.section, call.key}, call.now, std::move(call.others)});
  built_.program->steps().initialize();  // its memory was used
  return list;
}

void SpecRunner::take(const tune::Algorithm& algorithm, const std::string& words) {
  built_.program->exchange(algorithm.section, algorithm.key, words);
}

double SpecRunner::loss_after(int64_t steps) {
  built_.program->steps().initialize();
  steps_.rewind();
  steps_.run(steps);
  return steps_.last_result().loss;
}

SpecWorkbench::SpecWorkbench(const Arguments& arguments, const spec::Spec& base, bool in_parts)
    : arguments_(arguments), base_(base), in_parts_(in_parts), memory_bytes_(memory_option(arguments)) {
  limit_ = driver::memory_limit(base, planning_options(base, memory_bytes_)).bytes;
}

std::optional<spec::Spec> SpecWorkbench::spec_of(const tune::Candidate& candidate) const {
  tune::LockSection section;
  section.keys = candidate.keys();
  const spec::Node keys = as_spec(section);
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = load_over(arguments_, &keys, diagnostics);
  if (!spec) return spec;
  // The data's facts were found out once.
  spec->model.vocab_size = base_.model.vocab_size;
  spec->model.num_features = base_.model.num_features;
  spec->model.num_labels = base_.model.num_labels;
  spec->train.max_steps = base_.train.max_steps;
  spec->train.epochs = base_.train.epochs;
  spec->train.lr_scheduler = base_.train.lr_scheduler;
  take_chosen_keys(*spec, base_);
  return spec;
}

namespace {

// Equal for two candidates whose steps run the same program: calls with their places and kernels, and choices
// that no program contains. Evaluation and generation are not timed, so they do not count.
std::string program_text(const driver::Compiled& compiled, const tune::Candidate& candidate) {
  const program::Program& program = compiled.program;
  std::string text =
      fmt::format("{} bytes, {} on the host, {} threads, {} micro-batches\n", compiled.plan.device_bytes(),
                  compiled.plan.host_bytes, compiled.threads, spec::micro_batches_of_step(compiled.spec));
  for (const program::Function& function : program.functions) {
    if (function.name != "micro_step" && function.name != "update") continue;
    for (const program::Section& section : function.sections) {
      text += fmt::format("{} {} {}\n", section.name, section.layers, section.reverse);
      for (const program::Call& call : section.calls) {
        text += fmt::format("{} {}", name_of(program, call), to_string(call.queue));
        for (const ir::Use use : call.arguments) text += " " + to_text(compiled.graph, use);
        if (const auto* launch = std::get_if<program::Launch>(&call.work))
          text += fmt::format(" {}", launch->grid.blocks) +
                  program.kernels[static_cast<size_t>(launch->kernel)].text;
        text += "\n";
      }
    }
  }
  for (const auto& [key, value] : candidate.values) {
    if (key == tune::kBlas || tune::algorithm_of(key)) text += fmt::format("{} {}\n", key, value);
  }
  return text;
}

}  // namespace

tune::Parts SpecWorkbench::parts() const {
  const driver::Compiled compiled = driver::compile(base_, planning_options(base_, memory_bytes_));
  return {compiled.matmuls, driver::attention_share(compiled)};
}

std::optional<tune::Planned> SpecWorkbench::plan(const tune::Candidate& candidate) {
  const auto [entry, is_new] = plans_.try_emplace(candidate.values);
  if (is_new) entry->second = planned(candidate);
  return entry->second;
}

std::optional<tune::Planned> SpecWorkbench::planned(const tune::Candidate& candidate) const {
  const std::optional<spec::Spec> spec = spec_of(candidate);
  if (!spec) return std::nullopt;
  try {
    const driver::CompileOptions options = planning_options(*spec, memory_bytes_);
    const driver::Compiled compiled = driver::compile(*spec, options);
    if (!driver::memory_limit(*spec, options).allows(compiled.plan.device_bytes())) return std::nullopt;
    const bool cpu = targets::find(spec->target)->is_cpu();
    return tune::Planned{compiled.plan.device_bytes(), tune::work_of(compiled),
                         cpu ? double(options.threads) : 1, program_text(compiled, candidate)};
  } catch (const runtime::InputError&) {  // a kernel that this machine does not have
    return std::nullopt;
  }
}

std::unique_ptr<tune::Runner> SpecWorkbench::open(const tune::Candidate& candidate) {
  try {
    return runner(candidate);
  } catch (const Reported&) {  // somebody else uses the GPU's memory
    return nullptr;
  }
}

std::unique_ptr<SpecRunner> SpecWorkbench::runner(const tune::Candidate& candidate) const {
  const std::optional<spec::Spec> spec = spec_of(candidate);
  if (!spec) throw std::logic_error("a candidate that was planned is no spec: " + candidate.text());
  auto runner = std::make_unique<SpecRunner>(
      build_program(*spec, {.memory_bytes = memory_bytes_, .recorded = candidate.choices()}), in_parts_);
  for (const auto& [key, words] : candidate.values) {
    if (const auto algorithm = tune::algorithm_of(key)) runner->take(*algorithm, words);
  }
  return runner;
}

bool SpecWorkbench::has_algorithms() const {
  return !targets::find(base_.target)->is_cpu();
}

bool SpecWorkbench::both_fit(int64_t bytes, int64_t other_bytes) const {
  return limit_ > 0 && bytes + other_bytes <= limit_;
}

double SpecWorkbench::now() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

bool SpecWorkbench::stopped() const {
  return runtime::stop_requested();
}

}  // namespace hydrac::cli
