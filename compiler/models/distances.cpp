// What replies are embedded as, and how far these lie apart.
#include "models/blocks.h"

namespace hydrac::models {

void add_distances(ops::RegionBuilder& b, const Model& model, Use segments, Use hidden) {
  const ObjectiveInterface& io = model.interface.objective;
  b.enter("objective", "objective.embed");
  const Use of_replies =
      ops::one_hot(b, segments, model.graph.value(io.embeddings).shape[0], "segment_tokens");
  b.emit_node(ir::Op::gemm, {of_replies, hidden}, {{io.embeddings, {}}},
              {{"transpose_a", true}, {"transpose_b", false}, {"accumulate", true}});
  b.enter("objective", "objective.name");
  ops::pairwise_cosine_distance(b, {io.sets, {}}, {{io.distance, {}}, {io.distances, {}}});
}

}  // namespace hydrac::models
