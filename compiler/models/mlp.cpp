#include "models/mlp.h"

#include "models/blocks.h"
#include "models/declarer.h"

namespace hydrac::models {

MlpParameters declare_mlp(Declarer& d, const spec::Model& m, double residual_deviation) {
  using Division = Declarer::Division;
  const bool gated = spec::is_gated(m.hidden_act);
  const int layers = static_cast<int>(m.num_hidden_layers);
  const int64_t inner = m.intermediate_size;
  const ir::Dim C{m.hidden_size, "C"}, up{gated ? 2 * inner : inner, gated ? "2F" : "F"};
  const ir::Init zeros{ir::Init::Kind::zeros};
  const auto up_names = [&](const std::string& suffix) {
    std::vector<Declarer::Names> names;
    if (gated) names.push_back({d.named("mlp.gate." + suffix), 0, inner});
    names.push_back({d.named("mlp.up." + suffix), gated ? inner : 0, inner});
    return names;
  };
  MlpParameters p;
  p.up_weight = d.matrix("mlp.up.weight", {up, C}, layers, m.initializer_range, up_names("weight"), true,
                         Division::rows);
  if (m.mlp_bias)
    p.up_bias = d.vector("mlp.up.bias", up, layers, zeros, up_names("bias"), {}, Division::rows);
  p.down_weight = d.matrix("mlp.down.weight", {C, {inner, "F"}}, layers, residual_deviation,
                           {{d.named("mlp.down.weight")}}, true, Division::columns);
  if (m.mlp_bias) {
    p.down_bias = d.vector("mlp.down.bias", C, layers, zeros, {{d.named("mlp.down.bias")}});
    if (d.divides_stream()) d.mark_partial_gradient(p.down_bias);
  }
  return p;
}

Use activate(ops::RegionBuilder& b, const spec::HiddenAct& act, Use x, const std::string& name) {
  const bool gated = spec::is_gated(act);
  if (act.function) {
    const functions::Function& function = act.function->lifted;
    return gated ? ops::gated(b, function, x, name) : ops::activation(b, function, x, name);
  }
  const std::string kind(spec::to_string(act.word));
  return gated ? ops::gated(b, kind, x, name) : ops::activation(b, kind, x, name);
}

Use mlp_block(ops::RegionBuilder& b, const Build& build, Use x, const std::string& name) {
  const spec::Model& m = build.model.spec.model;
  const MlpParameters& p = build.model.parameters.mlp;
  b.enter("mlp", "model.intermediate_size");
  const Use up = projected_to_parts(b, build, x, p.up_weight, p.up_bias, name + ".up");
  b.enter("act", "model.hidden_act");
  const Use act = activate(b, m.hidden_act, up, name + ".act");
  b.enter("mlp_out", "model.hidden_size");
  const Use down = projected_from_parts(b, build, act, p.down_weight, p.down_bias, name + ".out");
  return branch_output(b, build, down, build.model.parameters.norms.mlp_output, kMlpResidualSite, name);
}

}  // namespace hydrac::models
