#include "runtime/log/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

int64_t step_of(std::string_view line, const std::filesystem::path& file, int number) {
  const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
  if (record.is_object()) {
    const auto step = record.find("step");
    if (step != record.end() && step->is_number_unsigned()) return step->get<int64_t>();
  }
  throw InputError(fmt::format("{}:{}: this line is no record with a \"step\"; remove or repair it to resume",
                               file.string(), number));
}

// The lines of `text` with step <= last_step. An unfinished last line is dropped: the run was killed while
// writing it.
std::string records_up_to(std::string_view text, int64_t last_step, const std::filesystem::path& file) {
  std::string kept;
  size_t begin = 0, end;
  for (int number = 1; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1, ++number) {
    const std::string_view line = text.substr(begin, end - begin);
    if (step_of(line, file, number) <= last_step) kept.append(line).push_back('\n');
  }
  return kept;
}

}  // namespace

std::span<const MetricField> metric_fields() {
  constexpr bool timing = true;
  constexpr double seconds = 1e-3, percent = 100, mebibytes = 1024;  // of milliseconds, shares and GiB
  static constexpr MetricField fields[] = {
      {"loss", "train/loss", &MetricsRecord::loss},
      {"eval_loss", "eval/loss", &MetricsRecord::eval_loss},
      {"eval_accuracy", "eval/accuracy", &MetricsRecord::eval_accuracy},
      {"eval_perplexity", "eval/perplexity", &MetricsRecord::eval_perplexity},
      {"grad_norm", "train/grad_norm", &MetricsRecord::grad_norm},
      {"learning_rate", "train/learning_rate", &MetricsRecord::learning_rate},
      {"sequence_len", "train/sequence_len", &MetricsRecord::sequence_len},
      {"curriculum_share", "train/curriculum_share", &MetricsRecord::curriculum_share},
      {"sampling_ms", "objective/sampling_time_s", &MetricsRecord::sampling_ms, timing, seconds},
      {"loss_scale", "train/loss_scale", &MetricsRecord::loss_scale},
      {"skipped_steps", "train/skipped_steps", &MetricsRecord::skipped_steps},
      {"tokens_per_second", "train/tokens_per_sec", &MetricsRecord::tokens_per_second, timing},
      {"samples_per_second", "train/samples_per_sec", &MetricsRecord::samples_per_second, timing},
      {"mfu", "train/mfu", &MetricsRecord::mfu, timing},
      {"step_ms", "train/step_time_s", &MetricsRecord::step_ms, timing, seconds},
      {"step_ms_p50", "train/step_time_p50_s", &MetricsRecord::step_ms_p50, timing, seconds},
      {"step_ms_p95", "train/step_time_p95_s", &MetricsRecord::step_ms_p95, timing, seconds},
      {"step_ms_max", "train/step_time_max_s", &MetricsRecord::step_ms_max, timing, seconds},
      {"data_wait_ms", "train/data_wait_s", &MetricsRecord::data_wait_ms, timing, seconds},
      {"communication_ms", "train/communication_s", &MetricsRecord::communication_ms, timing, seconds},
      {"memory_gib", "system/memory_allocated_mb", &MetricsRecord::memory_gib, false, mebibytes},
      {"memory_gib", "system/gpu_memory_allocated_mb", &MetricsRecord::gpu_memory_gib, false, mebibytes},
      {"gpu_util", "system/gpu_utilization_pct", &MetricsRecord::gpu_util, timing, percent},
      {"power_watts", "system/power_watts", &MetricsRecord::power_watts, timing},
      {"temperature_celsius", "system/temperature_celsius", &MetricsRecord::temperature_celsius, timing},
      {"sm_clock_mhz", "system/sm_clock_mhz", &MetricsRecord::sm_clock_mhz, timing},
      {"joules_per_token", "system/joules_per_token", &MetricsRecord::joules_per_token, timing},
  };
  return fields;
}

std::string metrics_line(const MetricsRecord& record) {
  std::string line = fmt::format("{{\"step\":{}", record.step);
  const auto add = [&](std::string_view key, double value) {
    line += fmt::format(",\"{}\":", key);
    line += std::isfinite(value) ? fmt::format("{}", value) : "null";
  };
  for (const MetricField& field : metric_fields())
    if (const std::optional<double>& value = record.*field.value) add(field.key, *value);
  for (const Metric& metric : record.metrics) add(metric.text.name, metric.value);
  line += '}';
  return line;
}

MetricsWriter::MetricsWriter(std::filesystem::path file, int64_t last_step)
    : file_(std::move(file)), last_step_(last_step) {
  std::error_code ignored;
  if (std::filesystem::exists(file_, ignored)) {
    // A fresh run asks nothing of what an earlier one left.
    const std::string text = last_step < 0 ? "" : read_file(file_);
    const std::string kept = records_up_to(text, last_step, file_);
    if (last_step < 0 || kept != text) replace_file(file_, kept);
  }
  fd_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) throw_run_error("open", file_, errno);
}

MetricsWriter::~MetricsWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsWriter::append(const MetricsRecord& record) {
  if (record.step <= last_step_) {
    throw std::logic_error(fmt::format("metrics of step {} after those of step {}", record.step, last_step_));
  }
  const std::string line = metrics_line(record) + "\n";
  write_all(fd_, std::as_bytes(std::span(line)), file_);
  last_step_ = record.step;
}

}  // namespace hydrac::runtime
