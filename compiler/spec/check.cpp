#include "spec/check.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "diag/render.h"
#include "diag/suggest.h"
#include "targets/target.h"

namespace hydrac::spec {

void check_target_name(Draft& draft) {
  if (!draft.usable({"target"}) || targets::find(draft.spec.target) != nullptr) return;
  std::vector<std::string> names = {"auto", "cuda"};
  for (const targets::Target& target : targets::all()) names.emplace_back(target.name);
  const bool any_gpu = draft.spec.target == "gpu" || draft.spec.target == "GPU";
  const std::string meant = any_gpu ? "cuda" : diag::nearest(draft.spec.target, names);
  draft.report(
      diag::Kind::unknown_target, {"target"},
      fmt::format("there is no target {}", diag::printable(draft.spec.target)),
      meant.empty() ? fmt::format("write {}", diag::one_of(names)) : fmt::format("did you mean {}?", meant));
  draft.broken.insert("target");
}

void check(Draft& draft) {
  check_model(draft);
  check_run(draft);
  check_curriculum(draft);
  check_tensor(draft);
  check_fetched(draft);
  check_objective(draft);
  check_mod(draft);
  check_sequence_warmup(draft);
  check_target(draft);
  advise(draft);
}

}  // namespace hydrac::spec
