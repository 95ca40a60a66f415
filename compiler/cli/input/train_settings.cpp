#include "cli/input/train_settings.h"

#include "cli/input/spec_input.h"
#include "cli/output/checkpoint_files.h"
#include "driver/floor.h"
#include "models/parameters.h"
#include "spec/hugging_face/hf_config.h"
#include "spec/hugging_face/hugging_face.h"
#include "spec/print.h"

namespace hydrac::cli {

namespace {

// For a range test: from so much below the optimizer's default to so much above it.
constexpr double kRangeEachWay = 1000;

runtime::TrainOptions train_options(const spec::Spec& spec) {
  runtime::TrainOptions options;
  const spec::Train& t = spec.train;
  options.run_dir = spec.output.dir;
  if (spec::begins_with_weights(spec)) options.weights = spec.model.weights;
  options.adapters = models::has_adapters(spec);
  if (spec::begins_with_adapter(spec)) options.adapter_weights = spec.adapter.weights;
  options.max_steps = t.max_steps;
  options.gradient_accumulation_steps = t.gradient_accumulation_steps;
  options.eval_steps = t.eval_steps;
  options.eval_batches = t.eval_batches;
  options.save_steps = t.save_steps;
  options.save_seconds = 60 * t.save_minutes;
  options.save_best = t.save_best;
  options.save_total_limit = t.save_total_limit;
  options.trace_first = spec.profile.start;
  options.trace_steps = spec.profile.steps;
  options.log_steps = t.log_steps;
  if (const spec::LearningRate& rate = t.optimizer.learning_rate; rate.automatic)
    options.range_test = {rate / kRangeEachWay, rate * kRangeEachWay, kRangeSteps};
  options.tokens_per_step =
      t.sequence_len * t.micro_batch_size * t.gradient_accumulation_steps * spec.parallel.data;
  options.peak_flops = static_cast<double>(spec::rank_count(spec)) *
                       driver::peaks_of(*targets::find(spec.target), spec.optimizations.precision).flops;
  options.spec_text = spec::to_yaml(spec, spec.output.dir);
  options.identity = result_keys(spec);
  if (options.adapters) {
    options.checkpoint_files["adapter_config.json"] = adapter_config_json(spec);
  } else {
    options.checkpoint_files["config.json"] = spec::config_json(spec);
    for (models::ZeroTensor& tensor : models::checkpoint_zeros(spec))
      options.zero_tensors.push_back({std::move(tensor.name), std::move(tensor.shape)});
  }
  const spec::HuggingFaceModel there = spec::hugging_face_model(spec);
  if (there.family == nullptr && spec.model.input == spec::Input::tokens)
    options.checkpoint_note = describe(there, options.adapters);
  if (spec::samples_replies(spec)) options.objective = objective_settings(spec);
  options.sample.prompt = spec.sample.prompt;
  options.sample.max_new_tokens = spec.sample.max_new_tokens;
  options.sample.stop = spec.sample.stop;
  options.sample.sampling = sample_options(spec);
  return options;
}

}  // namespace

runtime::ObjectiveSettings objective_settings(const spec::Spec& spec) {
  const auto& o = spec.objective;
  runtime::ObjectiveSettings settings{
      o.prompts, o.replies, o.weight, o.kl, o.prompt_tokens, o.max_new_tokens, spec.train.sequence_len};
  if (o.name == spec::ObjectiveName::grpo) settings.reward = {o.reward.command, o.reward.timeout};
  settings.sampling.temperature = o.temperature;
  settings.sampling.top_k = o.top_k;
  settings.sampling.top_p = o.top_p;
  settings.sampling.seed = static_cast<uint64_t>(o.seed);
  return settings;
}

runtime::TrainSettings train_settings(const spec::Spec& spec) {
  runtime::TrainSettings settings{spec.name, train_options(spec), data_settings(spec)};
  settings.ranks = static_cast<int>(spec::rank_count(spec));
  settings.cores = spec.train.cpu_affinity.numbers;
  return settings;
}

}  // namespace hydrac::cli
