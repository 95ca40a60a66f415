// A mixture of recursions (Bae et al., 2025), where attention runs once: after it, each token takes one to R
// passes through the block's mlp, of the same weights. All passes compute all tokens; where a token's last
// pass is over, what later ones make of it is left out.
#include "models/blocks.h"

namespace hydrac::models {

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
  const Parameters& p = build.model.parameters;
  const bool exact = b.value(next).exact;
  const auto stream = [&](Use use) { return exact ? b.exact(use) : use; };
  b.enter("router", kOrigin);
  const Use logit = ops::token_score(b, x, build.layer(p.recursions.router_weight),
                                     build.layer(p.recursions.router_bias), "router.logit");
  const Use kept = build.generates() ? Use{} : build.layer(build.model.interface.token_depths);
  const ops::Depths depths =
      ops::recursion_depth(b, logit, build.model.spec.model.mor.recursions, "token", kept);
  add_router_loss(b, build, logit, depths.depth);
  const std::vector<ir::ValueId>& embeddings = p.recursions.embeddings;
  for (size_t pass = 0; pass < embeddings.size(); ++pass) {
    const std::string suffix = pass == 0 ? "" : "." + std::to_string(pass);
    b.enter("norm", kOrigin);
    const Use embedded = stream(ops::bias_add(b, x, build.layer(embeddings[pass]), "recursion" + suffix));
    const Use normed = norm(b, build, embedded, build.of_layer(), p.mlp_norm, "mlp_normed" + suffix);
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
