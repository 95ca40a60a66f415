#include "models/norm.h"

#include "models/blocks.h"
#include "models/declarer.h"

namespace hydrac::models {

using ir::Init;

Init norm_start(const spec::Model& m) {
  const double weight = 1 - m.norm_offset;
  return weight == 1 ? Init{Init::Kind::ones} : Init{Init::Kind::constant, weight};
}

Norms declare_norms(Declarer& d, const spec::Model& m) {
  const int layers = static_cast<int>(m.num_hidden_layers);
  const auto declare = [&](const std::string& name, int slots, const std::string& of_last_slot = "") {
    const auto vector = [&](const std::string& suffix, Init init) {
      std::optional<Declarer::Names> last;
      if (!of_last_slot.empty()) last = Declarer::Names{d.named(of_last_slot + suffix)};
      const ValueId id =
          d.vector(name + suffix, {m.hidden_size, "C"}, slots, init, {{d.named(name + suffix)}}, last);
      if (d.divides_stream()) d.mark_partial_gradient(id);
      return id;
    };
    NormParameters made{vector(".weight", norm_start(m))};
    if (m.norm_bias) made.bias = vector(".bias", {Init::Kind::zeros});
    return made;
  };
  Norms norms;
  if (m.norm_placement != spec::NormPlacement::output) {
    norms.stream = declare("attn_norm", layers + 1, "final_norm");
    if (m.block != spec::BlockKind::parallel_one_norm) norms.mlp = declare("mlp_norm", layers);
  } else {
    norms.last = declare("final_norm", 1);
  }
  if (m.norm_placement == spec::NormPlacement::input) return norms;
  norms.attn_output = declare("attn_output_norm", layers);
  norms.mlp_output = declare("mlp_output_norm", layers);
  return norms;
}

Use norm(ops::RegionBuilder& b, const Build& build, Use x, ir::Slot slot, const NormParameters& p,
         const std::string& name) {
  const spec::Model& m = build.model.spec.model;
  b.enter("norm", "model.norm");
  const Use weight = build.model.parameters.at(p.weight, slot);
  if (m.norm == spec::Norm::rmsnorm) return ops::rmsnorm(b, x, weight, m.norm_eps, name, m.norm_offset);
  const Use bias = optional(build.model.parameters.at(p.bias, slot));
  return ops::layernorm(b, x, weight, bias, m.norm_eps, name, m.norm_offset);
}

}  // namespace hydrac::models
