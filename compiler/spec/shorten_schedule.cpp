// A run that the command line makes shorter than the spec file's schedule is long: `hydrac spec.yaml
// train.max_steps=10`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "spec/resolve.h"

namespace hydrac::spec {
namespace {

class Shortener {
 public:
  explicit Shortener(Draft& draft) : draft_(draft), spec_(draft.spec), steps_(draft.spec.train.max_steps) {}

  void shorten() {
    const char* length = spec_.is_set("train.max_steps") ? "train.max_steps" : "train.epochs";
    if (waits_for_data(spec_) || !draft_.usable({"train.max_steps"}) ||
        !spec_.where(length).on_command_line())
      return;
    auto& s = spec_.train.lr_scheduler;
    const int64_t tenth = (steps_ + 9) / 10, half = (steps_ + 1) / 2;
    cut("train.lr_scheduler.warmup_steps", s.warmup_steps, steps_, tenth);
    if (s.name == Schedule::wsd) {
      const int64_t rest = std::max<int64_t>(steps_ - s.warmup_steps, 0);
      cut("train.lr_scheduler.decay_steps", s.decay_steps, rest, std::min(tenth, rest));
    }
    cut("train.sequence_warmup.steps", spec_.train.sequence_warmup.steps, steps_, half);
    cut("data.curriculum.steps", spec_.data.curriculum.steps, steps_, half);
    if (auto& [start, steps] = spec_.profile; steps > 0) {
      cut("profile.steps", steps, steps_, steps_);
      const int64_t last_start = std::max<int64_t>(steps_ - steps + 1, 1);
      cut("profile.start", start, last_start, last_start);
    }
    if (cuts_.empty()) return;
    draft_.report(diag::Kind::schedule_shortened, {length},
                  fmt::format("the run has {} steps here, which the spec's schedule is too long for: {}",
                              steps_, fmt::join(cuts_, ", ")),
                  "these keys can be given here too");
  }

 private:
  // A key that is given beside max_steps is not ours to change: it stays, and is an error.
  void cut(std::string_view key, int64_t& value, int64_t most, int64_t instead) {
    if (!draft_.usable({key}) || value <= most || spec_.where(key).on_command_line()) return;
    cuts_.push_back(fmt::format("{} is {} instead of {}", key, instead, value));
    value = instead;
  }

  Draft& draft_;
  Spec& spec_;
  const int64_t steps_;
  std::vector<std::string> cuts_;
};

}  // namespace

void shorten_schedule(Draft& draft) {
  Shortener(draft).shorten();
}

}  // namespace hydrac::spec
