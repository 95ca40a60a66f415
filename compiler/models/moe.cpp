#include "models/moe.h"

#include "cuda/matmul/problem.h"
#include "models/blocks.h"
#include "models/declarer.h"
#include "models/mlp.h"
#include "targets/target.h"

namespace hydrac::models {

MoeParameters declare_moe(Declarer& d, const spec::Model& m, double residual_deviation) {
  const bool gated = spec::is_gated(m.hidden_act);
  const int64_t inner = m.moe.intermediate_size, experts = m.moe.experts;
  const ir::Dim C{m.hidden_size, "C"}, I{inner, "I"};
  const int64_t up_rows = gated ? 2 * inner : inner;
  std::vector<Declarer::Names> up, down;
  for (int64_t expert = 0; expert < experts; ++expert) {
    const auto named = [&](const char* ours) { return d.named_of_expert(ours, expert); };
    if (gated) up.push_back({named("experts.gate.weight"), expert * up_rows, inner});
    up.push_back({named("experts.up.weight"), (expert + 1) * up_rows - inner, inner});
    down.push_back({named("experts.down.weight"), expert * C.size, C.size});
  }
  const int layers = static_cast<int>(m.num_hidden_layers);
  const double share = static_cast<double>(m.moe.top_k) / static_cast<double>(experts);
  MoeParameters p;
  p.router_weight = d.matrix("router.weight", {{experts, "E"}, C}, layers, m.initializer_range,
                             {{d.named("router.weight")}}, false);
  p.up_weight = d.experts("experts.up.weight", {{experts * up_rows, gated ? "2EI" : "EI"}, C}, layers,
                          m.initializer_range, share, up);
  p.down_weight = d.experts("experts.down.weight", {{experts * C.size, "EC"}, I}, layers, residual_deviation,
                            share, down);
  return p;
}

namespace {

// Each expert's rows begin at a multiple, so that a tile of a GPU's matmuls has one expert.
int64_t block_rows(const spec::Spec& spec) {
  return targets::find(spec.target)->is_cpu() ? 1 : cuda::kExpertRows;
}

struct Routing {
  Use logits, scores, weights;
  ops::ExpertChoice choice;
};

// The router's losses, and what is logged of it: the busiest expert's load over the mean one, and entropy.
void add_router_loss(ops::RegionBuilder& b, const Build& build, const Routing& routing) {
  if (!build.trains()) return;
  const auto& moe = build.model.spec.model.moe;
  const auto tokens = static_cast<double>(element_count(b.shape(routing.scores)) / moe.experts);
  const auto layers = static_cast<double>(build.model.spec.model.num_hidden_layers);
  const auto experts = static_cast<double>(moe.experts), chosen = static_cast<double>(moe.top_k);
  const Use load = ops::expert_load(b, routing.choice, "router.load");
  if (moe.aux_loss_coef > 0 || moe.z_loss_coef > 0) {
    const ops::RouterLossWeights weights{moe.aux_loss_coef * experts / tokens, moe.z_loss_coef};
    const Use losses = ops::router_loss(b, routing.logits, routing.scores, load, weights, "router.losses");
    auxiliary_loss(b, build, losses, 1 / (tokens * layers), 0);
  }
  layer_statistic(b, build, ops::largest_load(b, load, "router.largest_load"),
                  experts / (tokens * chosen * layers), "largest_loads", {"expert_load", "load", 2});
  layer_statistic(b, build, ops::router_entropy(b, routing.scores, "router.entropy"), 1 / (tokens * layers),
                  "router_entropies", {"router_entropy", "entropy", 2});
}

Routing route(ops::RegionBuilder& b, const Build& build, Use x) {
  const auto& moe = build.model.spec.model.moe;
  b.enter("router", "model.moe.experts");
  Routing routing;
  routing.logits =
      b.exact(ops::linear(b, x, build.layer(build.model.parameters.moe.router_weight), {}, "router.logits"));
  routing.scores =
      ops::router_scores(b, routing.logits, moe.scoring == spec::RouterScoring::sigmoid, "router.scores");
  const Use kept = build.generates() ? Use{} : build.layer(build.model.interface.experts);
  routing.choice = ops::choose_experts(b, routing.scores, {moe.top_k, "Chosen"}, kept);
  routing.weights = ops::expert_weights(b, routing.scores, routing.choice, moe.normalize_top_k,
                                        moe.routed_scale, "expert_weights");
  add_router_loss(b, build, routing);
  return routing;
}

}  // namespace

Use moe_block(ops::RegionBuilder& b, const Build& build, Use x, const std::string& name) {
  const spec::Model& m = build.model.spec.model;
  const MoeParameters& p = build.model.parameters.moe;
  const ir::Dim C{m.hidden_size, "C"}, I{m.moe.intermediate_size, "I"};
  const Routing routing = route(b, build, x);
  const ops::ExpertRows rows =
      ops::expert_rows(b, routing.choice.experts, m.moe.experts, block_rows(build.model.spec));
  b.enter("mlp", "model.moe.intermediate_size");
  const Use inputs = ops::expert_inputs(b, x, rows, name + ".rows");
  const ir::Dim up_columns = spec::is_gated(m.hidden_act) ? ir::Dim{2 * I.size, "2I"} : I;
  const Use up = ops::grouped_matmul(b, inputs, build.layer(p.up_weight), rows, up_columns, build.generates(),
                                     name + ".up");
  b.enter("act", "model.hidden_act");
  const Use act = activate(b, m.hidden_act, up, name + ".act");
  b.enter("mlp_out", "model.moe.top_k");
  const Use down =
      ops::grouped_matmul(b, act, build.layer(p.down_weight), rows, C, build.generates(), name + ".rows_out");
  const Use out = ops::combined_rows(b, down, rows, routing.weights, name + ".out");
  return branch_output(b, build, out, build.model.parameters.norms.mlp_output, kMlpResidualSite, name);
}

}  // namespace hydrac::models
