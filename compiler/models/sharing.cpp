#include "models/sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace hydrac::models {

namespace {

using ir::Value;
using ir::ValueId;

// Rows of each of a stretch's slots, from row `first` of `packed` on.
ValueId slots_of(ir::Graph& graph, const Stretch& stretch, ValueId packed, int64_t first, int64_t rows) {
  Value view = graph.value(packed);
  const int64_t row = element_count(view.shape) / view.shape[0].size;
  view.name += "." + stretch.name;
  view.slots = stretch.slots;
  view.shape[0] = {rows, ""};
  view.shared.clear();
  view.view =
      ir::View{packed, first * row, stretch.slots > 1 ? rows * row : 0, contiguous_strides(view.shape)};
  return graph.add(std::move(view));
}

// As two dimensions of a value of one.
ValueId slots_and_rows(ir::Graph& graph, const Stretch& stretch, ValueId numbers, int64_t first,
                       int64_t rows) {
  Value view = graph.value(numbers);
  view.name += "." + stretch.name;
  view.shape = {{stretch.slots, ""}, {rows, ""}};
  view.view = ir::View{numbers, first, 0, {rows, 1}};
  return graph.add(std::move(view));
}

std::string named(const ParameterGroup& group, const std::string& part) {
  return "gradients" + (group.name.empty() ? "" : "." + group.name) + (part.empty() ? "" : "." + part);
}

ValueId add_rows(ir::Graph& graph, const std::string& name, int64_t rows, int slots, ir::Role role,
                 const Value& like, ir::DType dtype) {
  Value value;
  value.name = name;
  value.role = role;
  value.dtype = dtype;
  value.exact = true;
  value.slots = slots;
  value.shape = {{rows, ""}, like.shape[1]};
  return graph.add(std::move(value));
}

// Rows of stretches that lie in one value.
struct Storage {
  int64_t rows = 0;
  ValueId value = ir::kNoValue;
};

}  // namespace

ValueId whole_rows_of(ir::Graph& graph, const Pack& pack, const Stretch& stretch, ValueId packed,
                      int64_t first_row) {
  return slots_of(graph, stretch, packed, first_row, stretch.own * pack.sharing_ranks);
}

ValueId own_rows_of(ir::Graph& graph, const Stretch& stretch, ValueId own) {
  return slots_of(graph, stretch, own, stretch.first_own_row, stretch.own);
}

ValueId own_slots_of(ir::Graph& graph, const Stretch& stretch, ValueId own) {
  Value view = graph.value(own);
  const ir::Dim row = view.shape[1];
  view.name += "." + stretch.name;
  view.shape = {{stretch.slots, ""}, {stretch.own, ""}, row};
  view.view = ir::View{own, stretch.first_own_row * row.size, 0, contiguous_strides(view.shape)};
  return graph.add(std::move(view));
}

ValueId places_of(ir::Graph& graph, const Stretch& stretch, ValueId numbers) {
  return slots_and_rows(graph, stretch, numbers, stretch.place, stretch.rows);
}

ValueId own_places_of(ir::Graph& graph, const Stretch& stretch, ValueId numbers) {
  return slots_and_rows(graph, stretch, numbers, stretch.first_own_row, stretch.own);
}

void shard_gradients(ir::Graph& graph, const Pack& pack, ParameterGroup& group, ir::DType dtype) {
  const int64_t row = pack.row;
  // A layer's gradients lie together; what has one slot is finished at a time of its own.
  const auto storage_name = [&](const Stretch& stretch) {
    if (stretch.member == ir::kNoValue) return named(group, "");
    return named(group, stretch.slots > 1 ? fmt::format("block{}", stretch.slots) : stretch.name);
  };
  std::map<std::string, Storage> storages;
  for (const Stretch& stretch : group.stretches)
    storages[storage_name(stretch)].rows += stretch.own * pack.sharing_ranks;
  std::map<std::string, int64_t> filled;
  for (Stretch& stretch : group.stretches) {
    const std::string name = storage_name(stretch);
    Storage& storage = storages.at(name);
    const bool is_kept = stretch.member == ir::kNoValue;
    if (storage.value == ir::kNoValue)
      storage.value =
          add_rows(graph, name, storage.rows, stretch.slots,
                   is_kept ? ir::Role::gradient : ir::Role::activation, graph.value(pack.parameters), dtype);
    if (is_kept) group.gradients = storage.value;
    int64_t& first = filled[name];
    // The view's slot s is the storage's.
    Stretch one_slot = stretch;
    one_slot.slots = 1;
    stretch.gradients = slots_of(graph, one_slot, storage.value, first, stretch.own * pack.sharing_ranks);
    graph.value(stretch.gradients).slots = stretch.slots;
    for (const ValueId member : group.members) {
      const ir::View place = graph.value(member).view.value();
      const int64_t before = (group.first_row + stretch.first_row) * row,
                    rows = stretch.own * pack.sharing_ranks * stretch.slots;
      if (place.offset < before || place.offset >= before + rows * row) continue;
      Value& gradient = graph.value(gradient_of(graph, graph.value(member)));
      gradient.dtype = dtype;
      gradient.view = place;
      gradient.view->base = storage.value;
      gradient.view->offset += first * row - before;
      if (!is_kept) gradient.view->slot_stride = 0;
    }
    first += stretch.own * pack.sharing_ranks;
  }
}

int64_t rows_ahead_of(const ParameterGroup& group) {
  int64_t rows = 0;
  for (const Stretch& stretch : group.stretches)
    if (stretch.slots > 1) rows = std::max(rows, stretch.own - stretch.first_own_row);
  return rows;
}

ValueId add_behind_rows_ahead(ir::Graph& graph, const ParameterGroup& group, Value rows) {
  if (group.rows_ahead == 0) return graph.add(std::move(rows));
  Value all = rows;
  all.name += ".and_ahead";
  all.shape[0] = {rows.shape[0].size + group.rows_ahead, rows.shape[0].symbol + "ahead"};
  const int64_t before = group.rows_ahead * rows.shape[1].size;
  rows.view = ir::View{graph.add(std::move(all)), before, 0, contiguous_strides(rows.shape)};
  return graph.add(std::move(rows));
}

void divide_rows(ir::Graph& graph, const Pack& pack, ParameterGroup& group) {
  for (Stretch& stretch : group.stretches) {
    const bool is_member = stretch.member != ir::kNoValue;
    stretch.parameters =
        is_member ? stretch.member
                  : whole_rows_of(graph, pack, stretch, pack.parameters, group.first_row + stretch.first_row);
    stretch.own_gradients = own_rows_of(graph, stretch, group.own_gradients);
    if (pack.shards_gradients) continue;
    stretch.gradients = is_member ? gradient_of(graph, graph.value(stretch.member))
                                  : slots_of(graph, stretch, group.gradients, stretch.first_row,
                                             stretch.own * pack.sharing_ranks);
  }
}

std::vector<ir::Region> regions_of_stretches(
    const Pack& pack, const std::string& name, ir::Op op, std::string_view origin,
    const std::function<Moved(const ParameterGroup&, const Stretch&)>& moved) {
  std::map<int, ir::Region> regions;  // by slots
  for (const ParameterGroup& group : pack.groups) {
    for (const Stretch& stretch : group.stretches) {
      const Moved tensors = moved(group, stretch);
      if (tensors.to == ir::kNoValue) continue;
      const bool is_loop = stretch.slots > 1;
      auto [found, is_new] = regions.try_emplace(stretch.slots);
      ir::Region& region = found->second;
      if (is_new) {
        region.name = is_loop ? fmt::format("{}_block{}", name, stretch.slots) : name;
        region.layers = is_loop ? stretch.slots : 0;
        ir::Node& node = region.nodes.emplace_back();
        node.op = op;
        node.attributes = {{"ranks", pack.sharing_ranks}};
        node.scope = "optimizer";
        node.origin = origin;
      }
      region.nodes[0].inputs.push_back({tensors.from, {is_loop, 0}});
      region.nodes[0].outputs.push_back({tensors.to, {is_loop, 0}});
    }
  }
  std::vector<ir::Region> list;
  for (auto& [slots, region] : regions) list.push_back(std::move(region));
  return list;
}

}  // namespace hydrac::models
