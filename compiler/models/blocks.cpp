// Linear layers with their adapters, norm and residual dropout: what all blocks share.
#include "models/blocks.h"

#include <stdexcept>

namespace hydrac::models {

Use Build::ids() const {
  const Interface& io = model.interface;
  switch (phase) {
    case Phase::train:
    case Phase::evaluate:
      return fixed(io.tokens);
    case Phase::generate:
      return fixed(io.prompt);
    case Phase::prefill:
      return fixed(io.cache.prompts);
    case Phase::decode:
      return fixed(io.cache.tokens);
  }
  throw std::logic_error("no such phase");
}

Use Build::own_ids() const {
  return fixed(phase == Phase::generate ? model.interface.own_prompt : model.interface.own_tokens);
}

Use Build::positions() const {
  if (phase == Phase::decode) return fixed(model.interface.cache.positions);
  return generates() ? Use{} : fixed(model.interface.positions);
}

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
  if (!build.trains() || p == 0) return x;
  return ops::dropout(b, x, p, build.randomness(), site, name);
}

// The sum is one kernel with what reads it, or the end of the adapter's second matmul.
Use projected(ops::RegionBuilder& b, const Build& build, Use x, ir::ValueId weight, ir::ValueId bias,
              const std::string& name) {
  const auto& adapters = build.model.parameters.adapters;
  const auto found = adapters.find(weight);
  if (found == adapters.end() || !build.adapted)
    return ops::linear(b, x, build.layer(weight), optional(build.layer(bias)), name);
  const Adapter& adapter = found->second;
  const spec::Spec& spec = build.model.spec;
  const Use base = ops::linear(b, x, build.layer(weight), optional(build.layer(bias)), name + ".base");
  if (build.trains() && spec.adapter.dropout > 0) {
    b.asked_for_by(kAdapterDropout);
    x = ops::dropout(b, x, spec.adapter.dropout, build.randomness(), kAdapterSite + adapter.site,
                     name + ".adapter_input");
  }
  b.asked_for_by("adapter.r");
  const Use low = ops::linear(b, x, build.layer(adapter.a), {}, name + ".low");
  const Use matrix = ops::adapter_matrix(b, build.layer(adapter.b), adapter.targets, b.shape(low).back(),
                                         adapter_scale(spec), name + ".adapter_matrix");
  const Use change = ops::linear(b, low, matrix, {}, name + ".change");
  return ops::add(b, base, change, name, "base");
}

Use projected_to_parts(ops::RegionBuilder& b, const Build& build, Use x, ir::ValueId weight, ir::ValueId bias,
                       const std::string& name) {
  if (build.tensor_ranks() == 1) return projected(b, build, x, weight, bias, name);
  return ops::linear(b, x, build.layer(weight), optional(build.layer(bias)), name, build.tensor_ranks());
}

Use projected_from_parts(ops::RegionBuilder& b, const Build& build, Use x, ir::ValueId weight,
                         ir::ValueId bias, const std::string& name) {
  if (build.tensor_ranks() == 1) return projected(b, build, x, weight, bias, name);
  const Use part = ops::linear(b, x, build.layer(weight), {}, name + ".part");
  const bool has_bias = bias != ir::kNoValue;
  const Use sum = ops::sum_over_ranks(b, part, build.tensor_ranks(), has_bias ? name + ".sum" : name);
  return has_bias ? ops::bias_add(b, sum, build.layer(bias), name) : sum;
}

}  // namespace hydrac::models
