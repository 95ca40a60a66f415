// The model's input: token embedding or a projection of numeric features, learned positions, dropout.
#include "models/blocks.h"

namespace hydrac::models {

Use embed(ops::RegionBuilder& b, const Build& build, Use into) {
  const Model& model = build.model;
  const Parameters& p = model.parameters;
  const bool drops = build.trains() && model.spec.model.dropout > 0;
  const bool positions = p.position_embedding != ir::kNoValue;
  auto last = [&](bool is_last) {
    if (is_last) b.into(into);
  };
  b.enter("embedding", "model.hidden_size");
  const bool has_parts = model.spec.model.input == spec::Input::tokens && build.tensor_ranks() > 1;
  if (!has_parts) last(!positions && !drops);
  Use x;
  if (has_parts) {
    x = ops::embedding(b, build.ids(), build.fixed(p.token_embedding), "embedding.looked_up");
    x = ops::scale_rows(b, x, build.own_ids(), "embedding.part");
    if (!positions && !drops && b.value(into).exact) b.exact(x);  // a sum has the type of its terms
    last(!positions && !drops);
    x = ops::sum_over_ranks(b, x, build.tensor_ranks(), "embedding");
  } else if (model.spec.model.input == spec::Input::tokens) {
    x = ops::embedding(b, build.ids(), build.fixed(p.token_embedding), "embedding");
  } else {
    x = ops::linear(b, build.fixed(model.interface.features), build.fixed(p.input_weight),
                    build.fixed(p.input_bias), "embedding");
  }
  if (positions) {
    b.enter("embedding", "model.position");
    last(!drops);
    x = ops::position_embedding(b, x, build.fixed(p.position_embedding), "embedding.positioned",
                                build.positions());
  }
  if (drops) {
    b.enter("embedding", "model.dropout");
    last(true);
    x = residual_dropout(b, build, x, kEmbeddingSite, "embedding.dropped");
  }
  return x;
}

}  // namespace hydrac::models
