#include "runtime/log/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "runtime/log/output.h"
#include "runtime/log/units.h"

namespace hydrac::runtime {

namespace {

bool is_terminal(std::FILE* out) {
  const char* term = std::getenv("TERM");
  return ::isatty(::fileno(out)) != 0 && term && std::string_view(term) != "dumb";
}

// One less than the width: a line that fills it would wrap on some terminals.
size_t usable_columns(std::FILE* out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return 79;
  return size.ws_col - 1U;
}

}  // namespace

std::string progress_line(const MetricsRecord& record, int64_t max_steps, std::optional<double> eta_seconds,
                          size_t columns) {
  struct Part {
    std::string text;
    int rank;  // what is missed least goes first
  };
  std::vector<Part> parts{{fmt::format("step {}/{}", record.step, max_steps), 6}};
  const auto add = [&](fmt::format_string<const double&> format, const std::optional<double>& value,
                       int rank) {
    if (value) parts.push_back({fmt::format(format, *value), rank});
  };
  add("  loss {:.4f}", record.loss, 5);
  add("  eval {:.4f}", record.eval_loss, 3);
  add("  accuracy {:.3f}", record.eval_accuracy, 3);
  for (const auto& [text, value] : record.metrics)
    if (!text.label.empty())
      parts.push_back({fmt::format("  {} {:.{}f}", text.label, value, text.decimals), text.importance});
  add("  grad {:.2f}", record.grad_norm, 0);
  add("  lr {:.1e}", record.learning_rate, 1);
  add("  length {:.0f}", record.sequence_len, 0);
  add("  share {:.2f}", record.curriculum_share, 0);
  add("  scale {:g}", record.loss_scale, -1);
  if (record.skipped_steps > 0) add("  skipped {:.0f}", record.skipped_steps, -1);
  if (record.tokens_per_second)
    parts.push_back({"  " + human_count(*record.tokens_per_second) + " tok/s", 2});
  if (eta_seconds) parts.push_back({"  eta " + human_duration(*eta_seconds), 4});
  for (;;) {
    std::string line;
    for (const Part& part : parts) line += part.text;
    if (line.size() <= columns) return line;
    if (parts.size() == 1) return line.substr(0, columns);
    parts.erase(std::min_element(parts.begin(), parts.end(),
                                 [](const Part& a, const Part& b) { return a.rank < b.rank; }));
  }
}

Progress::Progress(std::FILE* out, ProgressOptions options)
    : out_(out), options_(options), terminal_(options.terminal.value_or(is_terminal(out))) {}

Progress::~Progress() {
  finish();
}

std::optional<double> Progress::estimate(int64_t step, double seconds) {
  if (last_step_ && step > *last_step_) {
    const double measured = (seconds - last_seconds_) / static_cast<double>(step - *last_step_);
    // A running mean over about twenty steps: steady, yet it follows a change.
    seconds_per_step_ = seconds_per_step_ == 0 ? measured : 0.95 * seconds_per_step_ + 0.05 * measured;
  }
  last_step_ = step;
  last_seconds_ = seconds;
  if (seconds_per_step_ == 0) return std::nullopt;
  return seconds_per_step_ * static_cast<double>(std::max<int64_t>(0, options_.max_steps - step));
}

void Progress::update(const MetricsRecord& record, double seconds) {
  const std::optional<double> eta = estimate(record.step, seconds);
  if (record.eval_loss) {
    eval_loss_ = record.eval_loss;
    eval_accuracy_ = record.eval_accuracy;
  }
  if (options_.quiet) return;
  MetricsRecord shown = record;
  shown.eval_loss = eval_loss_;
  shown.eval_accuracy = eval_accuracy_;
  if (terminal_) return show(progress_line(shown, options_.max_steps, eta, usable_columns(out_)));
  const bool due = record.step % std::max<int64_t>(1, options_.log_steps) == 0 || record.eval_loss ||
                   record.step == options_.max_steps;
  // A file has room for each line's own values only: an old evaluation there would read as a new one.
  if (due) print_text(out_, progress_line(record, options_.max_steps, eta) + "\n");
}

void Progress::show(const std::string& line) {
  shown_ = line;
  print_text(out_, "\r\x1b[K" + shown_);
}

void Progress::message(std::string_view text) {
  if (options_.quiet) return;
  const bool alone = shown_.empty();
  print_text(out_, alone ? fmt::format("{}\n", text) : fmt::format("\r\x1b[K{}\n{}", text, shown_));
}

void Progress::finish() {
  if (shown_.empty()) return;
  shown_.clear();
  print_text(out_, "\n");
}

}  // namespace hydrac::runtime
