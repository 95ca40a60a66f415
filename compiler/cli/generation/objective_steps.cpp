#include "cli/generation/objective_steps.h"

#include <algorithm>

#include "cli/generation/reply_encoder.h"
#include "cli/input/train_settings.h"
#include "runtime/log/monotonic.h"
#include "runtime/train/initial_weights.h"
#include "tune/timed_steps.h"

namespace hydrac::cli {

namespace {

constexpr int64_t kBatches = 4;  // different ones

runtime::ObjectiveSettings settings_of(const spec::Spec& spec) {
  runtime::ObjectiveSettings settings = objective_settings(spec);
  settings.reward = {};
  if (std::optional<runtime::OpenedEncoder> opened = open_reply_encoder(spec)) {
    settings.encoder = std::move(opened->encoder);
    // Random ids have no text.
    const auto ids = random_prompts(1, spec.objective.max_new_tokens, spec.encoder->vocab_size)[0];
    settings.encoder.ids = [ids](std::string_view, int64_t most) {
      return std::vector(ids.begin(), ids.begin() + std::min(most, std::ssize(ids)));
    };
  }
  return settings;
}

// Without those of replies.
verify::Batches data_batches(const spec::Spec& spec) {
  verify::Batches steps = verify::random_batches(spec, kBatches, 7);
  for (std::vector<runtime::Batch>& step : steps) {
    step.resize(static_cast<size_t>(spec.train.gradient_accumulation_steps));
    for (runtime::Batch& batch : step) batch.weights.clear();
  }
  return steps;
}

}  // namespace

ObjectiveSteps::ObjectiveSteps(targets::Executable& program)
    : program_(program.steps()),
      spec_(program.compiled().spec),
      tokenizer_(spec_.model.vocab_size),
      settings_(settings_of(spec_)),
      prompts_(
          random_prompts(spec_.objective.prompts, spec_.objective.prompt_tokens, spec_.model.vocab_size)),
      batches_(data_batches(spec_)),
      objective_(program_, tokenizer_, settings_) {
  if (settings_.encoder.weights.empty()) return;
  require_reply_encoder(spec_, program_);
  runtime::WeightFiles(settings_.encoder.weights).fill_encoder(program_);
}

std::vector<double> ObjectiveSteps::run(int64_t count) {
  std::vector<double> all, prefill, decode, scoring, training;
  for (int64_t i = 0; i < count; ++i) {
    const double began = runtime::monotonic_seconds();
    objective_.answer(++step_, prompts_, spec_.train.micro_batch_size);
    const std::vector<runtime::Batch>& step = batches_[static_cast<size_t>(step_) % batches_.size()];
    for (const runtime::Batch& batch : step) program_.micro_step(batch, verify::inverse_count(step));
    program_.update();
    result_ = program_.finish_step();
    all.push_back(runtime::monotonic_seconds() - began);
    const runtime::ObjectiveWork& work = objective_.work();
    prefill.push_back(work.sampling.prefill_seconds);
    decode.push_back(work.sampling.decode_seconds);
    scoring.push_back(work.scoring_seconds);
    training.push_back(all.back() - prefill.back() - decode.back() - scoring.back());
  }
  parts_ = {tune::median(prefill), tune::median(decode), tune::median(scoring), tune::median(training)};
  return all;
}

}  // namespace hydrac::cli
