#include "models/embed.h"

#include "models/blocks.h"
#include "models/declarer.h"
#include "runtime/checkpoint/float_formats.h"

namespace hydrac::models {

EmbeddingParameters declare_embedding(Declarer& d, const spec::Model& m, int64_t vocab) {
  const ir::Dim C{m.hidden_size, "C"};
  EmbeddingParameters p;
  if (m.input == spec::Input::tokens) {
    p.tokens = d.matrix("token_embedding", {{vocab, "V"}, C}, 1, m.initializer_range,
                        {{d.named("token_embedding.weight"), 0, m.vocab_size}}, false,
                        Declarer::Division::vocabulary);
  } else {
    p.features_weight = d.matrix("input.weight", {C, {m.num_features, "N"}}, 1, m.initializer_range,
                                 {{"model.input_proj.weight"}}, false);
    p.features_bias = d.vector("input.bias", C, 1, {ir::Init::Kind::zeros}, {{"model.input_proj.bias"}});
  }
  if (m.position == spec::Position::learned)
    p.positions = d.matrix("position_embedding", {{m.max_position_embeddings, "P"}, C}, 1,
                           m.initializer_range, {{d.named("position_embedding.weight")}}, false);
  return p;
}

namespace {

// Rows of the token embedding, times what the model multiplies them by. `into`: an existing use for them, or
// none.
Use look_up(ops::RegionBuilder& b, const Build& build, Use into, const std::string& name) {
  const spec::Spec& spec = build.model.spec;
  const Use table = build.fixed(build.model.parameters.embedding.tokens);
  const auto last = [&] {
    if (into.value != ir::kNoValue) b.into(into);
  };
  const bool is_scaled = spec.model.embedding_scale != 1;
  if (!is_scaled) last();
  const Use rows = ops::embedding(b, build.ids(), table, is_scaled ? name + ".unscaled" : name);
  if (!is_scaled) return rows;
  auto factor = static_cast<float>(spec.model.embedding_scale);
  if (spec.optimizations.weights == spec::WeightType::bf16)
    factor = runtime::bf16_to_f32(runtime::f32_to_bf16(factor));
  b.enter("embedding", "model.embedding_scale");
  last();
  return ops::scale(b, rows, factor, name);
}

}  // namespace

Use embed(ops::RegionBuilder& b, const Build& build, Use into) {
  const Model& model = build.model;
  const EmbeddingParameters& p = model.parameters.embedding;
  const bool drops = build.trains() && model.spec.model.dropout > 0;
  const bool positions = p.positions != ir::kNoValue;
  auto last = [&](bool is_last) {
    if (is_last) b.into(into);
  };
  b.enter("embedding", "model.hidden_size");
  const bool has_parts = model.spec.model.input == spec::Input::tokens && build.tensor_ranks() > 1;
  // Positions are added to all rows.
  const bool scatters = build.divides_stream() && has_parts && !positions,
             cuts = build.divides_stream() && !scatters;
  const bool is_exact = !drops && b.value(into).exact;  // then so is what ranks move, or add up
  const bool is_looked_up_last = !has_parts && !positions && !drops && !cuts;
  Use x;
  if (has_parts) {
    x = look_up(b, build, {}, "embedding.looked_up");
    x = ops::scale_rows(b, x, build.own_ids(), "embedding.part");
    if (!positions && is_exact) b.exact(x);
    last(!positions && !drops);
    x = cuts ? ops::sum_over_ranks(b, x, build.tensor_ranks(), "embedding")
             : sum_of_ranks(b, build, x, "embedding");
  } else if (model.spec.model.input == spec::Input::tokens) {
    x = look_up(b, build, is_looked_up_last ? into : Use{}, "embedding");
  } else {
    last(is_looked_up_last);
    x = ops::linear(b, build.fixed(model.graph.inputs.features), build.fixed(p.features_weight),
                    build.fixed(p.features_bias), "embedding");
  }
  if (positions) {
    b.enter("embedding", "model.position");
    last(!drops && !cuts);
    x = ops::position_embedding(b, x, build.fixed(p.positions), "embedding.positioned", build.positions());
  }
  if (cuts) {
    b.enter("embedding", kDividedStream);
    if (is_exact) b.exact(x);
    last(!drops);
    x = own_rows(b, build, x, "embedding.own");
  }
  if (drops) {
    b.enter("embedding", "model.dropout");
    last(true);
    x = residual_dropout(b, build, x, kEmbeddingSite, "embedding.dropped");
  }
  return x;
}

}  // namespace hydrac::models
