// The mlp: up projection (gate and up packed for gated activations), activation, down projection.
#include "models/blocks.h"

namespace hydrac::models {

namespace {

Use activate(ops::RegionBuilder& b, const spec::HiddenAct& act, Use x, const std::string& name) {
  const bool gated = spec::is_gated(act);
  if (act.function) {
    const functions::Function& function = act.function->lifted;
    return gated ? ops::gated(b, function, x, name) : ops::activation(b, function, x, name);
  }
  const std::string kind(spec::to_string(act.word));
  return gated ? ops::gated(b, kind, x, name) : ops::activation(b, kind, x, name);
}

}  // namespace

Use mlp_block(ops::RegionBuilder& b, const Build& build, Use x, const std::string& name) {
  const spec::Model& m = build.model.spec.model;
  const Parameters& p = build.model.parameters;
  b.enter("mlp", "model.intermediate_size");
  const Use up = projected_to_parts(b, build, x, p.up_weight, p.up_bias, name + ".up");
  b.enter("act", "model.hidden_act");
  const Use act = activate(b, m.hidden_act, up, name + ".act");
  b.enter("mlp_out", "model.hidden_size");
  const Use down = projected_from_parts(b, build, act, p.down_weight, p.down_bias, name + ".out");
  return branch_output(b, build, down, p.mlp_output_norm, kMlpResidualSite, name);
}

}  // namespace hydrac::models
