// Copies of vectors (norms' weights and biases) in the parameters' own type, for ranks that share fp32
// values: a rank updates its own ones, and every layer reads all of them.
#pragma once
#include <map>
#include <vector>

#include "ir/graph.h"
#include "models/pack.h"
#include "ops/builder.h"

namespace hydrac::passes {

class VectorCopies {
 public:
  VectorCopies(ir::Graph& graph, const models::Pack& pack) : graph_(graph), pack_(pack) {}

  // The copy of a divided parameter that does not decay.
  ir::ValueId copy_of(ir::ValueId parameter);
  // Makes the copies that were asked for: each is the sum over ranks of a rank's own elements and zeros
  // elsewhere. No-op if there are none.
  void make(ops::RegionBuilder& b);

 private:
  void declare();
  void spread(ops::RegionBuilder& b, size_t number);

  ir::Graph& graph_;
  const models::Pack& pack_;
  ir::ValueId vectors_ = ir::kNoValue;         // [rows, row], by groups
  std::vector<int64_t> first_rows_;            // of each group there
  std::map<ir::ValueId, ir::ValueId> copies_;  // by parameter
};

}  // namespace hydrac::passes
