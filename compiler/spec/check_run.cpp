// The schedule's lengths, and folders that a spec file may write to.
#include <fmt/format.h>

#include <filesystem>

#include "diag/render.h"
#include "spec/check.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

void check_loss(Draft& draft) {
  const auto& loss = draft.spec.train.loss;
  const Head head = draft.spec.model.head;
  if (!draft.usable({"train.loss", "model.head"})) return;
  if (loss.function && head != Head::regression)
    return draft.report(
        Kind::loss_needs_head, {"train.loss", "model.head"},
        fmt::format("a loss of your own compares numbers, and the head is {}", to_string(head)),
        "only head: regression takes one; remove train.loss");
  const Loss fitting = head == Head::regression ? Loss::mse : Loss::cross_entropy;
  if (!loss.function && loss.word != fitting)
    draft.report(Kind::loss_needs_head, {"train.loss", "model.head"},
                 fmt::format("the loss {} does not fit the {} head", to_string(loss.word), to_string(head)),
                 fmt::format("write {}, or remove train.loss", to_string(fitting)));
}

// Sums over micro-batches lose what 16 bits cannot hold.
void check_gradients(Draft& draft) {
  const char *format = "optimizations.gradients", *steps = "train.gradient_accumulation_steps";
  const int64_t micro_batches = draft.spec.train.gradient_accumulation_steps;
  if (!draft.usable({format, steps, "optimizations.precision"}) ||
      draft.spec.optimizations.gradients == GradientType::fp32 ||
      computes_in_32_bits(draft.spec.optimizations.precision) || micro_batches == 1)
    return;
  draft.report(Kind::gradients_accumulate, {format, steps},
               fmt::format("gradients of 16 bits cannot add up over {} micro-batches", micro_batches),
               "write gradients: fp32, or gradient_accumulation_steps: 1");
}

// Relative, and never leaving the folder it starts in.
bool stays_below(const std::string& written) {
  const std::filesystem::path path(written);
  if (path.is_absolute()) return false;
  for (const auto& part : path)
    if (part == "..") return false;
  return true;
}

// A spec may come from anywhere, so what it writes stays below the working folder. Who types the command may
// choose.
void check_folder(Draft& draft, std::string_view path, const std::string& folder) {
  const diag::Location where = draft.spec.where(path);
  if (!draft.usable({path}) || where.on_command_line() || stays_below(folder)) return;
  draft.report(Kind::unsafe_path, {path},
               fmt::format("{} {} would write outside the working folder", path, diag::printable(folder)),
               fmt::format("write a relative path without .., or give it on the command line: {}={}", path,
                           diag::printable(folder)));
}

}  // namespace

void check_schedule(Draft& draft) {
  const auto& s = draft.spec.train.lr_scheduler;
  const int64_t steps = draft.spec.train.max_steps;
  if (!draft.usable({"train.max_steps", "train.lr_scheduler.warmup_steps"}) || waits_for_data(draft.spec)) return;
  if (s.warmup_steps > steps)
    return draft.report(Kind::warmup_too_long, {"train.lr_scheduler.warmup_steps", "train.max_steps"},
                        fmt::format("warmup_steps ({}) is more than max_steps ({})", s.warmup_steps, steps),
                        fmt::format("{} would be usual", (steps + 9) / 10));
  if (draft.usable({"train.lr_scheduler.decay_steps", "train.lr_scheduler.name"}) &&
      s.name == Schedule::wsd && s.warmup_steps + s.decay_steps > steps)
    draft.report(Kind::decay_too_long, {"train.lr_scheduler.decay_steps", "train.max_steps"},
                 fmt::format("warmup_steps ({}) and decay_steps ({}) together are more than max_steps ({})",
                             s.warmup_steps, s.decay_steps, steps),
                 fmt::format("decay_steps can be {} at most", steps - s.warmup_steps));
}

void check_run(Draft& draft) {
  check_schedule(draft);
  check_loss(draft);
  check_gradients(draft);
  check_folder(draft, "output.dir", draft.spec.output.dir);
  check_folder(draft, "data.cache_dir", draft.spec.data.cache_dir);
}

}  // namespace hydrac::spec
