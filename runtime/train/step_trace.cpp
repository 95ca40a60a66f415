#include "runtime/train/step_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/log/monotonic.h"

namespace hydrac::runtime {

namespace {

// Perfetto's rows of tracks.
constexpr int kHost = 0, kDevice = 1;

std::string event(std::string_view name, int process, int track, double began, double seconds,
                  const std::string& details) {
  return fmt::format(R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                     json_string(name), process, track, 1e6 * began, 1e6 * seconds, details);
}

std::string named(const char* what, int process, int track, std::string_view name) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process,
                     track, json_string(name));
}

}  // namespace

void StepTrace::begin() {
  program_.time_calls(true);
  recording_ = true;
  start_ = monotonic_seconds();
}

void StepTrace::add(const FinishedStep& step) {
  const double began = monotonic_seconds() - step.seconds - start_;
  events_.push_back(event(fmt::format("step {}", step.step), kHost, 0, began, step.seconds,
                          fmt::format(R"("targets":{},"samples":{})", step.targets, step.samples)));
  if (step.waited > 0) events_.push_back(event("wait for data", kHost, 1, began, step.waited, ""));
  if (step.objective)
    events_.push_back(event("sample replies", kHost, 2, began + step.waited, step.objective->seconds, ""));
  for (const CallSpan& call : program_.take_timed_calls()) {
    std::string details = fmt::format(R"("step":{},"spec":{})", step.step, json_string(call.origin));
    if (call.layer >= 0) details += fmt::format(R"(,"layer":{})", call.layer);
    events_.push_back(
        event(call.name, kDevice, call.queue, call.began - start_, call.ended - call.began, details));
  }
}

void StepTrace::end(const std::filesystem::path& path) {
  program_.time_calls(false);
  recording_ = false;
  const std::vector<std::string> names = {named("process_name", kHost, 0, "training loop"),
                                          named("thread_name", kHost, 0, "steps"),
                                          named("thread_name", kHost, 1, "data"),
                                          named("thread_name", kHost, 2, "replies"),
                                          named("process_name", kDevice, 0, "calls"),
                                          named("thread_name", kDevice, 0, "queue"),
                                          named("thread_name", kDevice, 1, "queue beside it")};
  replace_file(path, fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{},\n{}\n]}}\n",
                                 fmt::join(names, ",\n"), fmt::join(events_, ",\n")));
  events_.clear();
}

}  // namespace hydrac::runtime
