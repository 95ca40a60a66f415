// Embeddings of sampled replies, and the distances between them.
#include "models/blocks.h"

namespace hydrac::models {

void add_distances(ops::RegionBuilder& b, const Model& model, Use segments, Use hidden) {
  const ir::ResultPorts& results = model.graph.results;
  b.enter("objective", "objective.embed");
  const Use of_replies =
      ops::one_hot(b, segments, model.graph.value(results.reply_embeddings).shape[0], "segment_tokens");
  b.emit_node(ir::Op::gemm, {of_replies, hidden}, {{results.reply_embeddings, {}}},
              {{"transpose_a", true}, {"transpose_b", false}, {"accumulate", true}});
  b.enter("objective", "objective.name");
  ops::pairwise_cosine_distance(b, {model.interface.objective.sets, {}},
                                {{results.reply_distance, {}}, {results.reply_distances, {}}});
}

}  // namespace hydrac::models
