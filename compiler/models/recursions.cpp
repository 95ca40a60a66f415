#include "models/recursions.h"

#include "models/blocks.h"
#include "models/declarer.h"

namespace hydrac::models {

RecursionParameters declare_recursions(Declarer& d, const spec::Model& m) {
  const std::string at = "model.layers.{}.mor.";
  const ir::Dim C{m.hidden_size, "C"};
  const int layers = static_cast<int>(m.num_hidden_layers);
  const ir::Init normal{ir::Init::Kind::normal, m.initializer_range};
  RecursionParameters p;
  p.router_weight = d.vector("router.weight", C, layers, normal, {{at + "router.weight"}});
  p.router_bias = d.vector("router.bias", {1, "1"}, layers, {ir::Init::Kind::zeros}, {{at + "router.bias"}});
  for (int64_t pass = 0; pass < m.mor.recursions; ++pass) {
    const std::string number = std::to_string(pass);
    p.embeddings.push_back(d.vector("recursion_embedding." + number, C, layers, normal,
                                    {{at + "recursion_embeddings." + number}}));
  }
  return p;
}

namespace {

constexpr const char* kOrigin = "model.mor.recursions";

// The router's auxiliary loss, and what is logged of it.
void add_router_loss(ops::RegionBuilder& b, const Build& build, Use logit, Use depth) {
  if (!build.trains()) return;
  const auto& mor = build.model.spec.model.mor;
  const ops::RecursionLossWeights weights{mor.depth_loss_coef, mor.variance_loss_coef, mor.logit_loss_coef};
  if (weights.depth > 0 || weights.variance > 0 || weights.logit > 0) {
    const Use loss = ops::recursion_loss(b, logit, weights, "router.loss");
    auxiliary_loss(b, build, loss, 1, mor.aux_warmup_steps);
  }
  const auto tokens = static_cast<double>(element_count(b.shape(depth)));
  const auto layers = static_cast<double>(build.model.spec.model.num_hidden_layers);
  layer_statistic(b, build, depth, 1 / (tokens * layers), "depths", {"mean_depth", "depth", 2});
}

}  // namespace

Use add_recursions(ops::RegionBuilder& b, const Build& build, Use x, Use next) {
  const RecursionParameters& p = build.model.parameters.recursions;
  const bool exact = b.value(next).exact;
  const auto stream = [&](Use use) { return exact ? b.exact(use) : use; };
  b.enter("router", kOrigin);
  const Use logit =
      ops::token_score(b, x, build.layer(p.router_weight), build.layer(p.router_bias), "router.logit");
  const Use kept = build.generates() ? Use{} : build.layer(build.model.interface.token_depths);
  const ops::Depths depths =
      ops::recursion_depth(b, logit, build.model.spec.model.mor.recursions, "token", kept);
  add_router_loss(b, build, logit, depths.depth);
  for (size_t pass = 0; pass < p.embeddings.size(); ++pass) {
    const std::string suffix = pass == 0 ? "" : "." + std::to_string(pass);
    b.enter("norm", kOrigin);
    const Use embedded = stream(ops::bias_add(b, x, build.layer(p.embeddings[pass]), "recursion" + suffix));
    const Use normed =
        norm(b, build, embedded, build.of_layer(), build.model.parameters.norms.mlp, "mlp_normed" + suffix);
    const Use added = mlp_block(b, build, normed, "mlp" + suffix);
    b.enter("residual", kOrigin);
    const std::string name = "residual_pass" + suffix;
    x = stream(pass == 0 ? ops::add(b, x, added, name)
                         : ops::masked_add(b, x, added, depths.depth, static_cast<int64_t>(pass), name));
  }
  b.into(next);
  return ops::straight_through(b, x, depths.weight, "residual");
}

}  // namespace hydrac::models
