#include "models/router.h"

#include "models/blocks.h"
#include "models/declarer.h"

namespace hydrac::models {

RouterParameters declare_router(Declarer& d, const spec::Model& m) {
  const ir::Init normal{ir::Init::Kind::normal, m.initializer_range};
  const ir::Dim C{m.hidden_size, "C"};
  const std::string at = "model.layers.{}.router.";
  return {d.vector_of_routed("router.weight", C, normal, at + "weight"),
          d.vector_of_routed("predictor.weight", C, normal, at + "predictor.weight"),
          d.vector_of_routed("predictor.bias", {1, "1"}, {ir::Init::Kind::zeros}, at + "predictor.bias")};
}

namespace {

// What the predictor says of each token, from the token alone: [B,T]. What made x does not learn of it.
Use predictor_logits(ops::RegionBuilder& b, const Build& build, Use x) {
  const RouterParameters& p = build.model.parameters.router;
  b.enter("router", "model.mod.predictor_weight");
  return ops::token_score(b, x, build.layer(p.predictor_weight), build.layer(p.predictor_bias),
                          "predictor.logits", true);
}

void train_predictor(ops::RegionBuilder& b, const Build& build, Use x, const ops::TokenChoice& choice) {
  const spec::Spec& spec = build.model.spec;
  const Use logits = predictor_logits(b, build, x);
  const auto tokens = static_cast<double>(element_count(b.shape(logits)));
  auxiliary_loss(b, build, ops::choice_loss(b, logits, choice.places, "predictor.losses"),
                 spec.model.mod.predictor_weight / tokens, 0);
  const auto routed = static_cast<double>(spec.model.num_hidden_layers / spec::layers_of_iteration(spec));
  layer_statistic(b, build, ops::choice_hits(b, logits, choice.places, "predictor.hits"),
                  1 / (tokens * routed), "predictor_hits", {"predictor_accuracy", "predicted", 3});
}

// Of a sequence at most.
int64_t tokens_in_cache(const ir::Graph& graph, const CacheInterface& io) {
  const int64_t rows = graph.value(io.keys).shape[2].size;  // of a page, where there are any
  const ir::ValueId pages = graph.inputs.page_table;
  return pages == ir::kNoValue ? rows : rows * graph.value(pages).shape[1].size;
}

// The layer's cache has a sequence's chosen tokens one behind the other. Where "decode" puts the next one is
// how many there are, which a history of flags says.
Route predicted_route(ops::RegionBuilder& b, const Build& build, Use x) {
  Route route;
  route.choice = ops::predicted_tokens(b, predictor_logits(b, build, x));
  const CacheInterface& io = build.model.interface.cache;
  route.positions = build.phase == Phase::decode ? build.positions() : route.choice.tokens;
  if (io.keys == ir::kNoValue) return route;
  const int64_t before = tokens_in_cache(b.graph(), io);
  const Use flags = ops::chosen_flags(b, route.choice.places, "router.flags");
  const WithEarlier all = with_earlier(b, build, flags, before, "router.flags");
  if (build.phase == Phase::decode) route.places_in_cache = ops::places_before(b, all.rows, "router.place");
  return route;
}

Route chosen_route(ops::RegionBuilder& b, const Build& build, Use scores) {
  const Model& model = build.model;
  const Use kept{model.interface.places, {true, build.first_iteration()}};
  Route route;
  route.choice = ops::choose_tokens(b, scores, {spec::chosen_tokens(model.spec), "Chosen"}, kept);
  route.positions = route.choice.tokens;
  return route;
}

}  // namespace

Route route_tokens(ops::RegionBuilder& b, const Build& build, Use x) {
  b.enter("router", "model.mod.capacity");
  const Use scores =
      ops::token_score(b, x, build.layer(build.model.parameters.router.weight), {}, "router.scores");
  Route route = build.generates() ? predicted_route(b, build, x) : chosen_route(b, build, scores);
  b.enter("router", "model.mod.capacity");
  route.score = taken(b, scores, route.choice, "router.chosen_scores");
  if (build.trains()) train_predictor(b, build, x, route.choice);
  return route;
}

Use taken(ops::RegionBuilder& b, Use x, const ops::TokenChoice& choice, const std::string& name) {
  const Use rows = ops::take_tokens(b, x, choice, name);
  return b.value(x).exact ? b.exact(rows) : rows;
}

}  // namespace hydrac::models
