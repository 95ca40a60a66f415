// Data in order of difficulty: what data has no such order, and curricula that never end.
#include <fmt/format.h>

#include "spec/checks/check.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

constexpr const char *kCurriculumSteps = "data.curriculum.steps", *kCurriculumBy = "data.curriculum.by";

void check_order(Draft& draft) {
  const auto& data = draft.spec.data;
  const CurriculumOrder by = data.curriculum.by;
  if (!draft.usable({kCurriculumBy, "data.format"}) || by == CurriculumOrder::file ||
      data.format == DataFormat::chat)
    return;
  draft.report(
      Kind::curriculum_unsupported, {kCurriculumBy, kCurriculumSteps},
      fmt::format("by: {} orders the items of format: chat, and data.format is {}", to_string(by),
                  to_string(data.format)),
      fmt::format("write the data in this order, by `hydrac data prepare --order {}`, and by: file here",
                  to_string(by)));
}

}  // namespace

void check_curriculum(Draft& draft) {
  const auto& spec = draft.spec;
  if (!draft.usable({kCurriculumSteps}) || spec.data.curriculum.steps == 0) return;
  if (draft.usable({"model.input"}) && spec.model.input == Input::series)
    return draft.report(Kind::curriculum_unsupported, {kCurriculumSteps, "model.input"},
                        "a curriculum is for tokens, and the input is series", "remove data.curriculum");
  if (draft.usable({"data.shuffle"}) && !spec.data.shuffle)
    draft.report(Kind::curriculum_unsupported, {"data.shuffle", kCurriculumSteps},
                 "a curriculum draws its sequences at random, and shuffle is false",
                 "remove data.shuffle, or data.curriculum");
  check_order(draft);
  check_curriculum_steps(draft);
}

void check_curriculum_steps(Draft& draft) {
  const int64_t steps = draft.spec.data.curriculum.steps, run = draft.spec.train.max_steps;
  if (!draft.usable({kCurriculumSteps, "train.max_steps"}) || waits_for_data(draft.spec) || steps <= run)
    return;
  draft.report(
      Kind::curriculum_too_long, {kCurriculumSteps, "train.max_steps"},
      fmt::format("curriculum.steps ({}) is more than max_steps ({}): the run would end before it has "
                  "drawn from all of its data",
                  steps, run),
      fmt::format("{} would be usual", (run + 1) / 2));
}

}  // namespace hydrac::spec
