// The mlp: up projection (gate and up packed for gated activations), activation, down projection.
#include "models/blocks.h"

namespace hydrac::models {

Use mlp_block(ops::RegionBuilder& b, const Build& build, Use x) {
  const spec::Model& m = build.model.spec.model;
  const Parameters& p = build.model.parameters;
  b.enter("mlp", "model.intermediate_size");
  const Use up = ops::linear(b, x, build.layer(p.up_weight), optional(build.layer(p.up_bias)), "mlp.up");
  b.enter("act", "model.hidden_act");
  const std::string kind(spec::to_string(m.hidden_act));
  const Use act = spec::is_gated(m.hidden_act) ? ops::gated(b, kind, up, "mlp.act")
                                               : ops::activation(b, kind, up, "mlp.act");
  b.enter("mlp_out", "model.hidden_size");
  const Use down =
      ops::linear(b, act, build.layer(p.down_weight), optional(build.layer(p.down_bias)), "mlp.out");
  b.enter("residual", "model.dropout");
  return residual_dropout(b, build, down, kMlpResidualSite, "mlp.dropped");
}

}  // namespace hydrac::models
