#include "models/router.h"

namespace hydrac::models {

Route route_tokens(ops::RegionBuilder& b, const Build& build, Use x) {
  const Model& model = build.model;
  b.enter("router", "model.mod.capacity");
  const Use scores = ops::row_dot(b, x, build.layer(model.parameters.router_weight), {}, "router.scores");
  const Use kept{build.generates() ? ir::kNoValue : model.interface.places,
                 {true, build.first_layer / model.parameters.layers_of_iteration}};
  Route route;
  route.choice = ops::choose_tokens(b, scores, {spec::chosen_tokens(model.spec), "Chosen"}, kept);
  route.score = taken(b, scores, route.choice, "router.chosen_scores");
  return route;
}

Use taken(ops::RegionBuilder& b, Use x, const ops::TokenChoice& choice, const std::string& name) {
  const Use rows = ops::take_tokens(b, x, choice, name);
  return b.value(x).exact ? b.exact(rows) : rows;
}

}  // namespace hydrac::models
