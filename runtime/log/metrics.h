// metrics.jsonl: one JSON object a line, for people with pandas and for resumes that leave no step twice.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/log/metric.h"

namespace hydrac::runtime {

// Figures known after a step; only those present are written.
struct MetricsRecord {
  int64_t step = 0;
  std::optional<double> loss, eval_loss;  // nats a token
  std::optional<double> eval_accuracy;    // classification: share of the targets that are predicted, 0 to 1
  std::optional<double> eval_perplexity;  // language models: exp(eval_loss)
  std::optional<double> grad_norm;        // before clipping
  std::optional<double> learning_rate;
  std::optional<double> sequence_len;      // with train.sequence_warmup: tokens of a sequence in this step
  std::optional<double> curriculum_share;  // while a curriculum draws: from this share of the training data
  std::vector<Metric> metrics;             // of the program and the objective, under names of their own
  std::optional<double> sampling_ms;       // of step_ms, with an objective: sampling replies
  // Dynamic loss scaling only: the scale of this step, and the steps of the run so far that were skipped.
  std::optional<double> loss_scale, skipped_steps;
  std::optional<double> tokens_per_second, samples_per_second;
  std::optional<double> mfu;      // share of the target's peak, 0 to 1
  std::optional<double> step_ms;  // mean of the last log_steps steps
  // Over the last kSpreadSteps steps: the median, the 95th percentile, the longest.
  std::optional<double> step_ms_p50, step_ms_p95, step_ms_max;
  std::optional<double> data_wait_ms;  // of step_ms: until the batches were there
  // Part of step_ms until gradients were summed over all ranks, waiting for slower ranks included.
  std::optional<double> communication_ms;
  // Planned memory; or in use on the GPU, by any process, and then not the plan's.
  std::optional<double> memory_gib, gpu_memory_gib;
  std::optional<double> gpu_util;  // 0 to 1
  std::optional<double> power_watts, temperature_celsius, sm_clock_mhz;
  std::optional<double> joules_per_token;  // since the record before
};

// The other fields in the order of the file, with their TensorBoard tags. Two fields of one key are never in
// one record.
struct MetricField {
  const char* key;
  const char* tag;
  std::optional<double> MetricsRecord::*value;
  bool is_timing = false;  // differs between runs that compute the same bits
  double tag_factor = 1;   // what is shown under the tag is so many times the value: another unit
};
std::span<const MetricField> metric_fields();

// The record's line without the newline: shortest numbers that read back exactly, null for NaN and
// infinities.
std::string metrics_line(const MetricsRecord& record);

// Appends to the file, a whole line with each write, so that a killed run loses at most the line it was
// writing.
class MetricsWriter {
 public:
  // Keeps the records with step <= `last_step` (-1 for a new run: none) and drops the rest and an unfinished
  // last line, atomically. InputError if a line of an existing file is no record; RunError if it cannot be
  // written.
  MetricsWriter(std::filesystem::path file, int64_t last_step);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  // Steps must grow (std::logic_error). RunError when it cannot be written.
  void append(const MetricsRecord& record);

 private:
  std::filesystem::path file_;
  int fd_ = -1;
  int64_t last_step_;
};

}  // namespace hydrac::runtime
