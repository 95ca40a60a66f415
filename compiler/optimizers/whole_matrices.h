// Whole matrices for an update that needs them (Muon's), also if ranks share the update and each has a part
// of every matrix.
#pragma once
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "models/pack.h"
#include "ops/builder.h"

namespace hydrac::optimizers {

// The matrices of a group in `u`, [rows, row], which is packed like the rank's part of the group. They lie in
// u itself, or, if ranks share the update, in values that are filled by exchanging parts of u. For a
// parameter that is divided slot by slot, a rank gets the slots that it owns (ops/all_to_all.cpp); parameters
// that are divided together become whole on all ranks.
class WholeMatrices {
 public:
  // `b`: of a region before the first node that works on the matrices.
  WholeMatrices(ops::RegionBuilder& b, const models::Pack& pack, const models::ParameterGroup& group,
                ir::Use u);

  // Ranks give each other their parts of u,
  void gather(ops::RegionBuilder& b) const;
  // and what has become of the matrices, which is then in u. Neither adds a node where u has them whole.
  void give_back(ops::RegionBuilder& b) const;

  // The matrices of these rows of a member: [slots, rows, columns], of the slots that are here.
  ir::ValueId of(ir::ValueId member, const ir::RowRange& rows) const;

 private:
  // The elements of a value, from `first` on, that are slots of a parameter one after another.
  struct Slots {
    ir::ValueId value = ir::kNoValue;
    int64_t first = 0;
    int64_t count = 0;
  };
  struct Exchanged {
    std::vector<ir::Use> parts, whole;
  };

  void add_whole(ops::RegionBuilder& b, const models::Stretch& stretch);
  int64_t first_row_of(ir::ValueId member) const;
  bool has(const models::Stretch& stretch, ir::ValueId member) const;
  Slots slots_of(ir::ValueId member) const;
  void exchange(ops::RegionBuilder& b, ir::Op op, const std::vector<ir::Use>& from,
                const std::vector<ir::Use>& to, ir::Attributes attributes = {}) const;

  ir::Graph& graph_;
  const models::Pack& pack_;
  const models::ParameterGroup& group_;
  const ir::ValueId u_;
  std::vector<std::pair<const models::Stretch*, ir::ValueId>> whole_;
  Exchanged owned_, gathered_;
};

}  // namespace hydrac::optimizers
