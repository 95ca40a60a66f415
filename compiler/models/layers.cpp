#include "models/layers.h"

#include <algorithm>

#include "models/interface.h"
#include "models/router.h"

namespace hydrac::models {

using ir::ValueId;

ir::Region& add_region(ir::Function& function, const std::string& name, int layers) {
  function.regions.push_back({name, layers, false, false, {}});
  return function.regions.back();
}

namespace {

// What a block's first part makes of a stream x, and the stream after it.
struct Attended {
  Use added, stream;
};

Attended add_attention(ops::RegionBuilder& block, const Build& build, Use x, Use attention_input) {
  const Use added = attention_block(block, build, attention_input);
  block.enter("residual", "model.hidden_size");
  const Use stream = ops::add(block, x, added, "residual_mid");
  if (block.value(x).exact) block.exact(stream);
  return {added, stream};
}

// What its second part makes of that stream.
Use mlp_of(ops::RegionBuilder& block, const Build& build, Use middle) {
  const Parameters& p = build.model.parameters;
  block.enter("norm", "model.norm");
  const Use mlp_input =
      norm(block, build, middle, build.layer(p.mlp_norm_weight), build.layer(p.mlp_norm_bias), "mlp_normed");
  return mlp_block(block, build, whole_rows(block, build, mlp_input, true, "mlp_input"), "mlp");
}

// The stream after attention -> after the mlp, which goes into the stream's use `next`.
Use add_mlp(ops::RegionBuilder& block, const Build& build, Use middle, Use next) {
  if (spec::has_recursions(build.model.spec)) return add_recursions(block, build, middle, next);
  const Use from_mlp = mlp_of(block, build, middle);
  block.enter("residual", "model.hidden_size");
  block.into(next);
  return ops::add(block, middle, from_mlp, "residual");
}

// A layer's norm before attention, of the stream x; it stands at the end of the layer before.
void add_norm_of_layer(ops::RegionBuilder& block, const Build& build, Use x, ValueId normed, int ahead) {
  const Parameters& p = build.model.parameters;
  block.enter("norm", "model.norm");
  block.into(build.layer(normed, ahead));
  norm(block, build, x, build.layer(p.attn_norm_weight, ahead), build.layer(p.attn_norm_bias, ahead),
       "normed");
}

// One layer of those that the region loops over: from slot l of the stream and of its norm to slot l + 1.
void add_block(const Build& build, ir::Region& region, ValueId residual, ValueId normed) {
  ops::RegionBuilder block(build.model.graph, region);
  block.enter("norm", "model.norm");
  const Use attention_input = whole_rows(block, build, build.layer(normed), true, "attn_input");
  const Use middle = add_attention(block, build, build.layer(residual), attention_input).stream;
  const Use next = add_mlp(block, build, middle, build.layer(residual, 1));
  if (!build.is_routed(1)) add_norm_of_layer(block, build, next, normed, 1);
}

// The same of a layer that computes the tokens its router chooses. Their sum of both parts, times the score's
// sigmoid, is added to the stream; the others pass by. Their norm is taken of them alone.
void add_routed_block(const Build& build, ir::Region& region, ValueId residual, ValueId normed) {
  const Parameters& p = build.model.parameters;
  ops::RegionBuilder block(build.model.graph, region);
  const Use stream = build.layer(residual);
  const Route route = route_tokens(block, build, stream);
  const Use x = taken(block, stream, route.choice, "chosen");
  Build chosen = build;
  chosen.tokens = block.shape(x)[1];
  chosen.chosen_positions = route.positions;
  chosen.places_in_cache = route.places_in_cache;
  block.enter("norm", "model.norm");
  const Use attention_input =
      norm(block, build, x, build.layer(p.attn_norm_weight), build.layer(p.attn_norm_bias), "attn_normed");
  const Attended attended = add_attention(block, chosen, x, attention_input);
  const Use from_mlp = mlp_of(block, chosen, attended.stream);
  block.enter("residual", "model.mod.capacity");
  const Use sum = ops::add(block, attended.added, from_mlp, "branches", "attention");
  const Use gated = ops::gate_rows(block, sum, route.score, "gated");
  const Use added = ops::spread_tokens(block, gated, route.choice, "spread");
  block.into(build.layer(residual, 1));
  const Use next = ops::add(block, stream, added, "residual");
  add_norm_of_layer(block, build, next, normed, 1);
}

// The stream, or its norm: a slot in front of each layer and one behind the last.
ValueId add_stream(const Build& build, const std::string& name, bool exact) {
  const spec::Spec& spec = build.model.spec;
  const ir::Dim C{spec.model.hidden_size, "C"};
  ir::Value value;
  value.name = name;
  value.shape =
      build.divides_stream() ? ir::Shape{stream_rows(spec), C} : ir::Shape{build.batch, build.tokens, C};
  value.exact = exact;
  value.slots = static_cast<int>(spec.model.num_hidden_layers) + 1;
  return add_layers(build.model, value);
}

}  // namespace

Hidden hidden_states(const Build& build, ir::Function& function, int cut) {
  Model& model = build.model;
  const int step = model.parameters.layers_of_iteration;
  const int layers = static_cast<int>(model.spec.model.num_hidden_layers), iterations = layers / step;
  const bool exact_residual = model.spec.optimizations.residual == spec::ResidualType::fp32;
  const std::vector<int> starts = [&] {
    std::vector<int> all = model.parameters.first_iterations();
    if (const auto at = std::ranges::lower_bound(all, cut);
        cut < iterations && (at == all.end() || *at != cut))
      all.insert(at, cut);
    return all;
  }();
  const ValueId residual = add_stream(build, "residual", exact_residual),
                normed = add_stream(build, "normed", false);

  ops::RegionBuilder input(model.graph, add_region(function, "input", 0));
  const Use first = embed(input, build, build.fixed(residual));
  input.enter("norm", "model.norm");
  input.into(build.fixed(normed));
  norm(input, build, first, build.fixed(model.parameters.attn_norm_weight),
       build.fixed(model.parameters.attn_norm_bias), "normed");

  for (size_t i = 0; i < starts.size(); ++i) {
    const int first = starts[i], end = i + 1 < starts.size() ? starts[i + 1] : iterations;
    const std::string name = starts.size() == 1 ? "block" : "block" + std::to_string(first);
    ir::Region& region = add_region(function, name, end - first);
    region.first_layer = first;
    for (int block = 0; block < step; ++block) {
      Build part = build;
      part.first_layer = first * step + block;
      (part.is_routed() ? add_routed_block : add_block)(part, region, residual, normed);
    }
  }
  return {residual, build.fixed(normed, layers)};
}

}  // namespace hydrac::models
