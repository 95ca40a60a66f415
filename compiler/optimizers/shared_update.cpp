#include "optimizers/shared_update.h"

#include "ir/body_builder.h"
#include "models/sharing.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::DType;
using ir::ExprType;
using ir::Node;
using ir::Term;
using ir::Use;

std::vector<ir::Region> take_own_parts(ir::Graph& graph, const models::Pack& pack) {
  if (pack.sharing_ranks == 1 || pack.is_divided) return {};
  return regions_of_stretches(
      pack, "own_part", ir::Op::own_part, "parallel.zero",
      [&](const models::ParameterGroup& group, const models::Stretch& stretch) {
        return models::Moved{stretch.parameters, own_rows_of(graph, stretch, group.own_parameters)};
      });
}

std::vector<ir::Region> gather_parts(ir::Graph& graph, const models::Pack& pack) {
  if (pack.sharing_ranks == 1 || pack.is_divided) return {};
  return regions_of_stretches(
      pack, "gather", ir::Op::all_gather, "parallel.zero",
      [&](const models::ParameterGroup& group, const models::Stretch& stretch) {
        return models::Moved{own_rows_of(graph, stretch, group.own_parameters), stretch.parameters};
      });
}

void zero_shared_gradients(ops::RegionBuilder& b, const models::Pack& pack) {
  if (pack.sharing_ranks == 1 || pack.shards_gradients) return;
  b.enter("optimizer", "parallel.zero");
  for (const models::ParameterGroup& group : pack.groups)
    b.emit_node(ir::Op::zero, {}, {{group.gradients, {}}});
}

Use own_places(ops::RegionBuilder& b, const models::ParameterGroup& group, Use rank) {
  b.enter("optimizer", "parallel.zero");
  const Use places = b.exact(b.fresh("own_places" + (group.name.empty() ? "" : "." + group.name),
                                     {b.graph().value(group.own_parameters).shape[0]}, DType::i32));
  for (const models::Stretch& stretch : group.stretches) {
    const Node node{.inputs = {rank}, .outputs = {{own_places_of(b.graph(), stretch, places.value), {}}}};
    BodyBuilder k(b.graph(), node, {{stretch.slots, ""}, {stretch.own, ""}});
    ir::Affine place = k.row(0) * stretch.rows + k.row(1);
    place.constant += stretch.place;
    const Term first = convert(k.scalar(0), ExprType::i64) *
                       k.constant(static_cast<double>(stretch.own), ExprType::i64, "kOwnRows");
    k.store_row(0, convert(k.position(place) + first, ExprType::i32));
    b.emit_body(node, "own_places", k.take(), "where the rank's rows are in the group's");
  }
  return places;
}

}  // namespace hydrac::optimizers
