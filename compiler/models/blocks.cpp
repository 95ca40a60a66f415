// Norm and residual dropout: what all blocks share.
#include "models/blocks.h"

namespace hydrac::models {

Use optional(Use use) {
  return use.value == ir::kNoValue ? Use{} : use;
}

Use norm(ops::RegionBuilder& b, const Build& build, Use x, Use weight, Use bias, const std::string& name) {
  const spec::Model& m = build.model.spec.model;
  if (m.norm == spec::Norm::layernorm) return ops::layernorm(b, x, weight, optional(bias), m.norm_eps, name);
  return ops::rmsnorm(b, x, weight, m.norm_eps, name);
}

Use residual_dropout(ops::RegionBuilder& b, const Build& build, Use x, Site site, const std::string& name) {
  const double p = build.model.spec.model.dropout;
  if (!build.training || p == 0) return x;
  return ops::dropout(b, x, p, build.randomness(), site, name);
}

}  // namespace hydrac::models
