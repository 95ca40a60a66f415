#include "models/layers.h"

#include "models/attention/attention.h"
#include "models/interface.h"

namespace hydrac::models {

using ir::ValueId;

ir::Region& add_region(ir::Function& function, const std::string& name, int layers) {
  function.regions.push_back({name, layers, false, false, {}});
  return function.regions.back();
}

namespace {

Use mlp_or_experts(ops::RegionBuilder& block, const Build& build, Use x) {
  return (spec::has_experts(build.model.spec) ? moe_block : mlp_block)(block, build, x, "mlp");
}

// The mlp of the stream x, or of a sum on the way to the next one, through its norm.
Use mlp_of(ops::RegionBuilder& block, const Build& build, Use x) {
  const Parameters& p = build.model.parameters;
  const Use input =
      p.norms.mlp.exists() ? norm(block, build, x, build.of_layer(), p.norms.mlp, "mlp_normed") : x;
  return mlp_or_experts(block, build, whole_rows(block, build, input, true, "mlp_input"));
}

// The branches of a block of the stream x; `middle` is x with attention's part. The mlp reads that sum, in a
// parallel block x, or the norm of x that attention reads (`input`). A mixture of recursions has none here.
struct Branches {
  Use attention, middle, mlp;
};

Branches branches_of(ops::RegionBuilder& block, const Build& build, Use x, Use input) {
  const spec::Spec& spec = build.model.spec;
  Branches made;
  made.attention = attention_block(block, build, input);
  if (spec.model.block == spec::BlockKind::parallel) made.mlp = mlp_of(block, build, x);
  if (spec.model.block == spec::BlockKind::parallel_one_norm) made.mlp = mlp_or_experts(block, build, input);
  block.enter("residual", "model.hidden_size");
  made.middle = ops::add(block, x, made.attention, "residual_mid");
  if (block.value(x).exact) block.exact(made.middle);
  if (spec.model.block == spec::BlockKind::sequential && !spec::has_recursions(spec))
    made.mlp = mlp_of(block, build, made.middle);
  return made;
}

// The residual stream, with a slot in front of each layer and one behind the last, and of each the norm that
// the layer, or the head, begins with.
struct Stream {
  ValueId residual = ir::kNoValue, normed = ir::kNoValue;
};

// The norm of the stream in that slot.
Use stream_norm(ops::RegionBuilder& b, const Build& build, const Stream& stream, ir::Slot slot) {
  const Parameters& p = build.model.parameters;
  b.into(p.at(stream.normed, slot));
  return norm(b, build, p.at(stream.residual, slot), slot, p.norms.stream, "normed");
}

// One layer of those that the region loops over: from slot l of the stream to slot l + 1.
void add_block(const Build& build, ir::Region& region, const Stream& stream) {
  ops::RegionBuilder block(build.model.graph, region);
  block.enter("norm", "model.norm");
  const Use x = build.layer(stream.residual);
  const bool has_norm = build.model.parameters.norms.stream.exists();
  const Use input = has_norm ? stream_norm(block, build, stream, build.of_layer()) : x;
  const Branches made = branches_of(block, build, x, whole_rows(block, build, input, true, "attn_input"));
  const Use next = build.layer(stream.residual, 1);
  if (spec::has_recursions(build.model.spec)) {
    add_recursions(block, build, made.middle, next);
    return;
  }
  block.enter("residual", "model.hidden_size");
  block.into(next);
  ops::add(block, made.middle, made.mlp, "residual");
}

// The same of a layer that computes the tokens its router chooses. Their sum of both parts, times the score's
// sigmoid, is added to the stream; the others pass by.
void add_routed_block(const Build& build, ir::Region& region, const Stream& slots) {
  ops::RegionBuilder block(build.model.graph, region);
  const Use stream = build.layer(slots.residual);
  const Route route = route_tokens(block, build, stream);
  const Use x = taken(block, stream, route.choice, "chosen");
  Build chosen = build;
  chosen.tokens = block.shape(x)[1];
  chosen.chosen_positions = route.positions;
  chosen.places_in_cache = route.places_in_cache;
  const Use attention_input =
      norm(block, build, x, build.of_layer(), build.model.parameters.norms.stream, "attn_normed");
  const Branches made = branches_of(block, chosen, x, attention_input);
  block.enter("residual", "model.mod.capacity");
  const Use sum = ops::add(block, made.attention, made.mlp, "branches", "attention");
  const Use gated = ops::gate_rows(block, sum, route.score, "gated");
  const Use added = ops::spread_tokens(block, gated, route.choice, "spread");
  block.into(build.layer(slots.residual, 1));
  ops::add(block, stream, added, "residual");
}

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
  std::set<int> starts = model.parameters.first_iterations();
  starts.insert(cut);
  starts.erase(starts.lower_bound(iterations), starts.end());
  const Parameters& p = model.parameters;
  Stream stream{add_stream(build, "residual", exact_residual)};
  if (p.norms.stream.exists()) stream.normed = add_stream(build, "normed", false);

  ops::RegionBuilder input(model.graph, add_region(function, "input", 0));
  embed(input, build, build.fixed(stream.residual));

  for (auto start = starts.begin(); start != starts.end(); ++start) {
    const int first = *start, end = std::next(start) == starts.end() ? iterations : *std::next(start);
    const std::string name = starts.size() == 1 ? "block" : "block" + std::to_string(first);
    ir::Region& region = add_region(function, name, end - first);
    region.first_layer = first;
    for (int block = 0; block < step; ++block) {
      Build part = build;
      part.first_layer = first * step + block;
      (part.is_routed() ? add_routed_block : add_block)(part, region, stream);
    }
  }
  ops::RegionBuilder output(model.graph, add_region(function, "output", 0));
  if (!p.norms.last.exists()) return {stream.residual, stream_norm(output, build, stream, {false, layers})};
  return {stream.residual,
          norm(output, build, build.fixed(stream.residual, layers), {}, p.norms.last, "normed")};
}

}  // namespace hydrac::models
