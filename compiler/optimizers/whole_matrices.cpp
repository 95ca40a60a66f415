#include "optimizers/whole_matrices.h"

#include <algorithm>
#include <string>

#include "models/sharing.h"
#include "runtime/parallel/owned_slots.h"

namespace hydrac::optimizers {

using ir::Use;
using ir::ValueId;

WholeMatrices::WholeMatrices(ops::RegionBuilder& b, const models::Pack& pack,
                             const models::ParameterGroup& group, Use u)
    : graph_(b.graph()), pack_(pack), group_(group), u_(u.value) {
  for (const models::Stretch& stretch : group.stretches) {
    const bool has_members =
        std::ranges::any_of(group.members, [&](ValueId member) { return has(stretch, member); });
    if (has_members) add_whole(b, stretch);
  }
}

void WholeMatrices::add_whole(ops::RegionBuilder& b, const models::Stretch& stretch) {
  const bool is_divided = stretch.member != ir::kNoValue;
  const ir::Dim row = graph_.value(u_).shape[1];
  ir::Shape shape = {{stretch.own * pack_.sharing_ranks, ""}, row};
  if (is_divided) shape.insert(shape.begin(), {runtime::owned_slots(stretch.slots, pack_.sharing_ranks), ""});
  const Use whole = b.fresh("muon.whole." + stretch.name, shape, graph_.value(u_).dtype);
  whole_.emplace_back(&stretch, whole.value);
  Exchanged& exchanged = is_divided ? owned_ : gathered_;
  exchanged.parts.push_back(
      {is_divided ? own_slots_of(graph_, stretch, u_) : own_rows_of(graph_, stretch, u_), {}});
  exchanged.whole.push_back(whole);
}

void WholeMatrices::gather(ops::RegionBuilder& b) const {
  exchange(b, ir::Op::all_to_all, owned_.parts, owned_.whole, {{"to_owners", true}});
  exchange(b, ir::Op::all_gather, gathered_.parts, gathered_.whole);
}

void WholeMatrices::give_back(ops::RegionBuilder& b) const {
  exchange(b, ir::Op::all_to_all, owned_.whole, owned_.parts, {{"to_owners", false}});
  exchange(b, ir::Op::own_part, gathered_.whole, gathered_.parts);
}

void WholeMatrices::exchange(ops::RegionBuilder& b, ir::Op op, const std::vector<Use>& from,
                             const std::vector<Use>& to, ir::Attributes attributes) const {
  if (from.empty()) return;
  attributes["ranks"] = pack_.sharing_ranks;
  b.enter("optimizer", "parallel.zero");
  b.emit_node(op, from, to, attributes);
}

ValueId WholeMatrices::of(ValueId member, const ir::RowRange& rows) const {
  const ir::Value parameter = graph_.value(member);
  const Slots slots = slots_of(member);
  const bool is_whole = rows.count == parameter.shape[0].size;
  const ir::Dim columns = parameter.shape[1];
  ir::Value part = graph_.value(slots.value);
  part.name = "muon." + parameter.name + (is_whole ? "" : "." + std::to_string(rows.first));
  part.shape = {{slots.count, ""}, is_whole ? parameter.shape[0] : ir::Dim{rows.count, ""}, columns};
  part.view = ir::View{slots.value,
                       slots.first + rows.first * columns.size,
                       0,
                       {parameter.view->slot_stride, columns.size, 1}};
  return graph_.add(std::move(part));
}

// In the group.
int64_t WholeMatrices::first_row_of(ValueId member) const {
  return graph_.value(member).view->offset / pack_.row - group_.first_row;
}

bool WholeMatrices::has(const models::Stretch& stretch, ValueId member) const {
  const int64_t row = first_row_of(member) - stretch.first_row;
  return row >= 0 && row < stretch.slots * stretch.own * pack_.sharing_ranks;
}

WholeMatrices::Slots WholeMatrices::slots_of(ValueId member) const {
  const ir::Value& parameter = graph_.value(member);
  const int64_t first = parameter.view->offset - group_.first_row * pack_.row;
  for (const auto& [stretch, whole] : whole_) {
    if (!has(*stretch, member)) continue;
    if (stretch->member == member) return {whole, 0, graph_.value(whole).shape[0].size};
    return {whole, first - stretch->first_row * pack_.row, parameter.slots};
  }
  return {u_, first, parameter.slots};
}

}  // namespace hydrac::optimizers
