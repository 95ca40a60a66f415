// Divides a pack among ranks (ZeRO): the rows of its stretches, and nodes that do something with all of them.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/pack.h"

namespace hydrac::models {

// The rows of a stretch without a member, [own * ranks, row], from `first_row` of `packed` on.
ir::ValueId whole_rows_of(ir::Graph& graph, const Pack& pack, const Stretch& stretch, ir::ValueId packed,
                          int64_t first_row);
// [own, row] of each slot, of a value that has a row (of any dimensions) for each that a rank has of the
// group.
ir::ValueId own_rows_of(ir::Graph& graph, const Stretch& stretch, ir::ValueId own);
// [slots, own, row] of the same.
ir::ValueId own_slots_of(ir::Graph& graph, const Stretch& stretch, ir::ValueId own);
// [slots, rows] of a value that has a number for each of the group's `used_rows`, and [slots, own] of one
// that has a number for each row of the rank.
ir::ValueId places_of(ir::Graph& graph, const Stretch& stretch, ir::ValueId numbers);
ir::ValueId own_places_of(ir::Graph& graph, const Stretch& stretch, ir::ValueId numbers);

// Gives gradients places of their own, where ranks keep parts of them alone: those of a stretch with a member
// in a value of role activation, which has a slot for each of the member's, others in group.gradients.
void shard_gradients(ir::Graph& graph, const Pack& pack, ParameterGroup& group, ir::DType dtype);
// What ParameterGroup::rows_ahead has to be, where layers gather ahead.
int64_t rows_ahead_of(const ParameterGroup& group);
// Adds `rows`, [rows, row] of what a rank has of the group, behind the group's rows_ahead.
ir::ValueId add_behind_rows_ahead(ir::Graph& graph, const ParameterGroup& group, ir::Value rows);
// Fills the values of the group's stretches in.
void divide_rows(ir::Graph& graph, const Pack& pack, ParameterGroup& group);

// A stretch's tensors, from the first to the second.
struct Moved {
  ir::ValueId from = ir::kNoValue, to = ir::kNoValue;
};
// Regions with a node `op` from and to tensors of each stretch: one for those of one slot, and a loop for
// those of as many slots as there are layers in it. Named `name`, and `name`_block and the layers' number.
// Stretches of which nothing moves (Moved{}) are left out.
std::vector<ir::Region> regions_of_stretches(
    const Pack& pack, const std::string& name, ir::Op op, std::string_view origin,
    const std::function<Moved(const ParameterGroup&, const Stretch&)>& moved);

}  // namespace hydrac::models
