#include "runtime/train/step_records.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace hydrac::runtime {

namespace {

// The double whose shortest text is the float's: 0.001, not 0.0010000000474974513. Same float either way.
double readable(float value) {
  if (!std::isfinite(value)) return value;
  char text[32];
  const char* end = std::to_chars(text, text + sizeof text, value).ptr;
  double number = 0;
  std::from_chars(text, end, number);
  return number;
}

}  // namespace

void StepRecords::add(const FinishedStep& step) {
  meter_.add(step.seconds, step.waited, step.communicated);
  unevenness_.add(step);
  tokens_per_step_ = options_.tokens_per_step > 0 ? options_.tokens_per_step : step.targets;
  tokens_since_record_ += tokens_per_step_;
}

MetricsRecord StepRecords::of(const FinishedStep& step, const SkippedSteps& skipped) const {
  const StepResult& result = step.result;
  const double seconds = meter_.mean_seconds(options_.log_steps);
  MetricsRecord record;
  record.step = step.step;
  record.loss = readable(result.loss);
  record.grad_norm = readable(result.grad_norm);
  record.learning_rate = readable(result.learning_rate);
  if (step.stage.sequence_len > 0) record.sequence_len = static_cast<double>(step.stage.sequence_len);
  if (step.stage.curriculum_share > 0) record.curriculum_share = step.stage.curriculum_share;
  for (const Metric& metric : result.metrics)
    record.metrics.push_back({metric.text, readable(static_cast<float>(metric.value))});
  if (result.loss_scale) {
    record.loss_scale = readable(*result.loss_scale);
    record.skipped_steps = static_cast<double>(skipped.total);
  }
  if (step.objective) {
    const std::vector<Metric> metrics = step.objective->metrics();
    record.metrics.insert(record.metrics.end(), metrics.begin(), metrics.end());
    record.sampling_ms = 1e3 * step.objective->seconds;
  }
  record.tokens_per_second = static_cast<double>(tokens_per_step_) / seconds;
  record.samples_per_second = static_cast<double>(step.samples) / seconds;
  record.step_ms = 1e3 * seconds;
  record.data_wait_ms = 1e3 * meter_.mean_waited(options_.log_steps);
  if (options_.is_parallel) record.communication_ms = 1e3 * meter_.mean_communicated(options_.log_steps);
  record.memory_gib = static_cast<double>(program_.facts().arena_bytes) * 0x1p-30;
  const double flop = program_.facts().flop_per_target * static_cast<double>(step.targets);
  if (flop > 0 && options_.peak_flops > 0) record.mfu = flop / seconds / options_.peak_flops;
  return record;
}

void StepRecords::complete(MetricsRecord& record) {
  const StepSpread spread = meter_.spread();
  record.step_ms_p50 = 1e3 * spread.median;
  record.step_ms_p95 = 1e3 * spread.percentile_95;
  record.step_ms_max = 1e3 * spread.longest;
  const std::optional<DeviceLoad> load = program_.device_load();
  if (load) {
    record.gpu_util = load->utilization;
    record.memory_gib.reset();
    record.gpu_memory_gib = static_cast<double>(load->memory_used_bytes) * 0x1p-30;
    record.power_watts = load->power_watts;
    record.temperature_celsius = load->temperature_celsius;
    record.sm_clock_mhz = load->sm_clock_mhz;
    if (load->energy_joules && energy_joules_ && tokens_since_record_ > 0) {
      record.joules_per_token =
          (*load->energy_joules - *energy_joules_) / static_cast<double>(tokens_since_record_);
    }
    energy_joules_ = load->energy_joules;
  }
  tokens_since_record_ = 0;
}

// A program that works on a step while the host prepares the next one waits only for the part that takes
// longer.
std::string StepRecords::data_stall() {
  constexpr int64_t window = 50;
  if (said_stall_ || meter_.steps() <= window) return "";
  const double step = meter_.mean_seconds(window), waited = meter_.mean_waited(window);
  if (waited < (program_.facts().steps_in_flight > 1 ? 0.5 : 0.1) * step) return "";
  said_stall_ = true;
  return fmt::format(
      "of {:.1f} ms a step, {:.1f} are spent waiting for data: is its disk slow, or shared? Token shards on "
      "a "
      "local disk are read fastest (docs/data.md)",
      1e3 * step, 1e3 * waited);
}

double StepRecords::tokens_per_second() const {
  const double seconds = meter_.median_seconds();
  return seconds > 0 ? static_cast<double>(tokens_per_step_) / seconds : 0;
}

std::string pauses(double all, double evaluating, double saving) {
  constexpr double least_seconds = 30;
  if (all < least_seconds || evaluating + saving < 0.2 * all) return "";
  return fmt::format(
      "of {:.0f} s, validation took {:.0f} (train.eval_steps, eval_batches) and saving {:.0f} "
      "(train.save_steps, save_minutes)",
      all, evaluating, saving);
}

}  // namespace hydrac::runtime
