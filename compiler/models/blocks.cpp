// Linear layers with their adapters and residual dropout: what all blocks share.
#include "models/blocks.h"

#include <stdexcept>

namespace hydrac::models {

Use Build::ids() const {
  const ir::InputPorts& inputs = model.graph.inputs;
  switch (phase) {
    case Phase::train:
    case Phase::evaluate:
      return fixed(inputs.tokens);
    case Phase::generate:
      return fixed(inputs.prompt);
    case Phase::prefill:
      return fixed(inputs.prompts);
    case Phase::decode:
      return fixed(inputs.next_tokens);
  }
  throw std::logic_error("no such phase");
}

Use Build::own_ids() const {
  return fixed(phase == Phase::generate ? model.graph.inputs.own_prompt : model.graph.inputs.own_tokens);
}

Use Build::positions() const {
  if (chosen_positions.value != ir::kNoValue) return chosen_positions;
  if (phase == Phase::decode) return fixed(model.graph.inputs.next_positions);
  return generates() ? Use{} : fixed(model.graph.inputs.positions);
}

Use optional(Use use) {
  return use.value == ir::kNoValue ? Use{} : use;
}

namespace {

// Of rows like x's; declared for the function that asks first.
Use history_of(const Build& build, const ir::Shape& x, int64_t rows, const std::string& name) {
  CacheInterface& io = build.model.interface.cache;
  const auto [found, is_new] = io.histories.try_emplace(name, ir::kNoValue);
  if (is_new) {
    const ir::Value& keys = build.model.graph.value(io.keys);
    ir::Value history;
    history.name = "cache." + name;
    history.shape = x;
    history.shape[0] = build.model.graph.value(build.model.graph.inputs.next_tokens).shape[0];
    history.shape[1] = {rows, ""};
    history.dtype = keys.dtype;
    history.role = ir::Role::state;
    history.slots = static_cast<int>(build.model.spec.model.num_hidden_layers) /
                    build.model.parameters.layers_of_iteration;
    found->second = build.model.graph.add(std::move(history));
  }
  return {found->second, {true, build.first_iteration()}};
}

}  // namespace

WithEarlier with_earlier(ops::RegionBuilder& b, const Build& build, Use x, int64_t count,
                         const std::string& name) {
  const bool keeps = build.phase == Phase::prefill || build.phase == Phase::decode;
  if (count == 0 || !keeps) return {x};
  const ir::InputPorts& inputs = build.model.graph.inputs;
  const Use history = history_of(build, b.shape(x), count + 1, name);
  if (build.phase == Phase::decode)
    return {ops::history_window(b, x, history, build.positions(), name + ".window"), count};
  ops::history_append(b, x, history, build.fixed(inputs.prompt_rows), build.fixed(inputs.prompt_ends));
  return {x};
}

Use residual_dropout(ops::RegionBuilder& b, const Build& build, Use x, Site site, const std::string& name) {
  const double p = build.model.spec.model.dropout;
  if (!build.trains() || p == 0) return x;
  return ops::dropout(b, x, p, build.randomness_of_stream(), build.site(site), name);
}

Use branch_output(ops::RegionBuilder& b, const Build& build, Use x, const NormParameters& p, Site site,
                  const std::string& name) {
  if (p.exists()) x = norm(b, build, x, build.of_layer(), p, name + ".normed");
  if (const double scale = build.model.spec.model.residual_scale; scale != 1) {
    b.enter("residual", "model.residual_scale");
    x = ops::scale(b, x, scale, name + ".scaled");
  }
  b.enter("residual", "model.dropout");
  return residual_dropout(b, build, x, site, name + ".dropped");
}

namespace {

ir::Shape shape_of_part(const Build& build, ir::Dim columns) {
  return {stream_rows(build.model.spec), std::move(columns)};
}

}  // namespace

Use whole_rows(ops::RegionBuilder& b, const Build& build, Use x, bool of_terms, const std::string& name) {
  if (!build.divides_stream()) return x;
  b.asked_for_by(kDividedStream);
  return ops::gather_rows(b, x, {build.batch, build.tokens, b.shape(x).back()}, build.tensor_ranks(),
                          of_terms, name);
}

Use own_rows(ops::RegionBuilder& b, const Build& build, Use x, const std::string& name) {
  return ops::own_rows(b, x, shape_of_part(build, b.shape(x).back()), build.tensor_ranks(), name);
}

Use sum_of_ranks(ops::RegionBuilder& b, const Build& build, Use x, const std::string& name) {
  if (!build.divides_stream()) return ops::sum_over_ranks(b, x, build.tensor_ranks(), name);
  return ops::sum_rows(b, x, shape_of_part(build, b.shape(x).back()), build.tensor_ranks(), name);
}

namespace {

enum class Division { none, outputs, inputs };  // of a linear layer among ranks

// How many ranks add up what each has of a linear layer's input gradient. Where they divide the stream, that
// is done where its rows come together.
int64_t summing_ranks(const Build& build, Division division) {
  return division == Division::outputs && !build.divides_stream() ? build.tensor_ranks() : 1;
}

// What an adapter adds. What its first matrix makes is on all ranks, of a layer whose inputs are divided a
// sum over them.
Use change_of(ops::RegionBuilder& b, const Build& build, const Adapter& adapter, Use x,
              const std::string& name, Division division) {
  const spec::Spec& spec = build.model.spec;
  if (build.trains() && spec.adapter.dropout > 0) {
    b.asked_for_by(kAdapterDropout);
    const ops::Randomness random =
        division == Division::inputs ? build.randomness_of_rank() : build.randomness();
    x = ops::dropout(b, x, spec.adapter.dropout, random, build.site(kAdapterSite + adapter.site),
                     name + ".adapter_input");
  }
  b.asked_for_by("adapter.r");
  const bool sums = division == Division::inputs;
  Use low = ops::linear(b, x, build.layer(adapter.a), {}, name + (sums ? ".low.part" : ".low"));
  if (sums) low = sum_of_ranks(b, build, low, name + ".low");
  const Use matrix = ops::adapter_matrix(b, build.layer(adapter.b), adapter.targets, b.shape(low).back(),
                                         adapter_scale(spec), name + ".adapter_matrix");
  return ops::linear(b, low, matrix, {}, name + ".change", summing_ranks(build, division));
}

// Its sum with an adapter is one kernel with what reads it, or the end of the adapter's second matmul.
Use projected(ops::RegionBuilder& b, const Build& build, Use x, ir::ValueId weight, ir::ValueId bias,
              const std::string& name, Division division) {
  const auto& adapters = build.model.parameters.adapters;
  const auto found = adapters.find(weight);
  const bool is_adapted = found != adapters.end() && build.adapted;
  const std::string base_name = is_adapted ? name + ".base" : name;
  Use base;
  if (division == Division::inputs) {
    const bool has_bias = bias != ir::kNoValue;
    base = ops::linear(b, x, build.layer(weight), {}, base_name + ".part");
    base = sum_of_ranks(b, build, base, has_bias ? base_name + ".sum" : base_name);
    if (has_bias) base = ops::bias_add(b, base, build.layer(bias), base_name);
  } else {
    base = ops::linear(b, x, build.layer(weight), optional(build.layer(bias)), base_name,
                       summing_ranks(build, division));
  }
  if (!is_adapted) return base;
  return ops::add(b, base, change_of(b, build, found->second, x, name, division), name, "base");
}

}  // namespace

Use projected(ops::RegionBuilder& b, const Build& build, Use x, ir::ValueId weight, ir::ValueId bias,
              const std::string& name) {
  return projected(b, build, x, weight, bias, name, Division::none);
}

Use projected_to_parts(ops::RegionBuilder& b, const Build& build, Use x, ir::ValueId weight, ir::ValueId bias,
                       const std::string& name) {
  return projected(b, build, x, weight, bias, name,
                   build.tensor_ranks() > 1 ? Division::outputs : Division::none);
}

Use projected_from_parts(ops::RegionBuilder& b, const Build& build, Use x, ir::ValueId weight,
                         ir::ValueId bias, const std::string& name) {
  return projected(b, build, x, weight, bias, name,
                   build.tensor_ranks() > 1 ? Division::inputs : Division::none);
}

}  // namespace hydrac::models
