// A run's output for a person: one line that updates itself on a terminal, plain lines elsewhere.
#pragma once
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/log/metrics.h"

namespace hydrac::runtime {

// step 120/400  loss 2.4312  eval 2.5100  grad 0.87  lr 1.0e-03  34.5k tok/s  eta 0:42
// After the learning rate come "length 128" with a sequence warm-up, "share 0.20" during a curriculum, "scale
// 65536" with loss scaling, and "skipped 3" if steps were skipped. If the line exceeds `columns`, these are
// left out first, then the gradient norm, and the step last.
std::string progress_line(const MetricsRecord& record, int64_t max_steps, std::optional<double> eta_seconds,
                          size_t columns = SIZE_MAX);

struct ProgressOptions {
  int64_t max_steps = 0;
  int64_t log_steps =
      1;               // without a terminal: a line every so many steps, at evaluations and at the last step
  bool quiet = false;  // nothing at all, messages included
  std::optional<bool> terminal;  // default: whether `out` is one (and TERM is not "dumb")
};

// Writes to `out`, which the caller keeps open.
class Progress {
 public:
  Progress(std::FILE* out, ProgressOptions options);
  // Leaves the last line standing.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Called after each step. `seconds`: a monotonic clock's time, from which the remaining time is estimated.
  // The last evaluation's figures stay on the line until the next.
  void update(const MetricsRecord& record, double seconds);
  // A line of its own ("saved runs/x/checkpoint-100"), above the updating line.
  void message(std::string_view text);
  void finish();

 private:
  std::optional<double> estimate(int64_t step, double seconds);
  void show(const std::string& line);

  std::FILE* out_;
  ProgressOptions options_;
  bool terminal_;
  std::string shown_;  // the updating line, "" when none stands
  std::optional<double> eval_loss_, eval_accuracy_;
  std::optional<int64_t> last_step_;
  double last_seconds_ = 0, seconds_per_step_ = 0;
};

}  // namespace hydrac::runtime
