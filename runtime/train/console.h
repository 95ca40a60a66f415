// The one place through which a training run prints.
#pragma once
#include <cstdio>
#include <string_view>

#include "runtime/base/quote.h"
#include "runtime/log/progress.h"

namespace hydrac::runtime {

class Console {
 public:
  // `out` must outlive the console. Quiet: every member does nothing.
  Console(std::FILE* out, const ProgressOptions& options)
      : out_(out), quiet_(options.quiet), progress_(out, options) {}

  void progress(const MetricsRecord& record, double seconds) { progress_.update(record, seconds); }
  void message(std::string_view line) { progress_.message(safe_message(line)); }

  // Text that a model wrote, printable() and seen at once. Ends the updating line.
  void text(std::string_view text);

 private:
  std::FILE* out_;
  bool quiet_;
  Progress progress_;
};

}  // namespace hydrac::runtime
