#include "spec/checks/check.h"

#include <fmt/format.h>

#include "diag/render.h"
#include "spec/keys/other_names.h"
#include "targets/target.h"

namespace hydrac::spec {

void check_target_name(Draft& draft) {
  if (!draft.usable({"target"}) || targets::find(draft.spec.target) != nullptr) return;
  draft.report(diag::Kind::unknown_target, {"target"},
               fmt::format("there is no target {}", diag::printable(draft.spec.target)),
               instead_of_target(draft.spec.target));
  draft.broken.insert("target");
}

void check(Draft& draft) {
  check_model(draft);
  check_run(draft);
  check_curriculum(draft);
  check_mix(draft);
  check_tensor(draft);
  check_fetched(draft);
  check_objective(draft);
  check_preferences(draft);
  check_mod(draft);
  check_moe(draft);
  check_sequence_warmup(draft);
  check_target(draft);
  advise(draft);
}

}  // namespace hydrac::spec
