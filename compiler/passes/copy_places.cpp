#include "passes/copy_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace hydrac::passes {

using ir::Value;
using ir::ValueId;

namespace {

int64_t elements_of_pack(const ir::Graph& graph, const models::Pack& pack) {
  return element_count(graph.value(pack.parameters).shape);
}

ValueId add_pack(ir::Graph& graph, const models::Pack& pack, ir::DType type, const std::string& name,
                 const ir::Dim& rows) {
  Value copies = graph.value(pack.parameters);
  copies.name = fmt::format("{}.{}", name, to_string(type));
  copies.role = ir::Role::working_copy;
  copies.dtype = type;
  copies.shape[0] = rows;
  return graph.add(std::move(copies));
}

}  // namespace

CopyPlaces CopyPlaces::of_all(ir::Graph& graph, const models::Pack& pack, ir::DType type) {
  const ir::Dim rows = graph.value(pack.parameters).shape[0];
  CopyPlaces places;
  places.pieces_.push_back(
      {0, elements_of_pack(graph, pack), add_pack(graph, pack, type, "parameters", rows), 0});
  return places;
}

CopyPlaces CopyPlaces::of_stretches(ir::Graph& graph, const models::Pack& pack, ir::DType type,
                                    const std::function<bool(const models::Stretch&)>& is_kept) {
  CopyPlaces places;
  int64_t rows = 0;
  for (const models::ParameterGroup& group : pack.groups) {
    for (const models::Stretch& stretch : group.stretches) {
      if (!is_kept(stretch)) continue;
      const int64_t first = group.first_row + stretch.first_row,
                    count = stretch.own * pack.sharing_ranks * stretch.slots;
      places.pieces_.push_back({first * pack.row, (first + count) * pack.row, ir::kNoValue, rows * pack.row});
      rows += count;
    }
  }
  const ValueId base = add_pack(graph, pack, type, "whole_parameters", {rows, "Whole"});
  for (CopyPiece& piece : places.pieces_) piece.base = base;
  return places;
}

CopyPlaces CopyPlaces::with_host(ir::Graph& graph, const models::Pack& pack, ir::DType type) {
  CopyPlaces places;
  std::vector<CopyPiece>& pieces = places.pieces_;
  int64_t on_device = 0, on_host = 0, done = 0;
  const auto keep_until = [&](int64_t end) {
    if (end > done) pieces.push_back({done, end, ir::kNoValue, on_device});
    on_device += end - done;
    done = end;
  };
  std::vector<const Value*> moved;
  for (const Value& value : graph.values)
    if (value.trains() && value.parameter->on_host) moved.push_back(&value);
  std::ranges::sort(moved, {}, [](const Value* value) { return value->view.value().offset; });
  std::vector<bool> is_on_host;
  for (const Value* value : moved) {
    keep_until(value->view->offset);
    is_on_host.resize(pieces.size(), false);
    const int64_t count = value->view->slot_stride * value->slots;
    pieces.push_back({done, done + count, ir::kNoValue, on_host});
    is_on_host.push_back(true);
    on_host += count;
    done += count;
  }
  keep_until(elements_of_pack(graph, pack));
  is_on_host.resize(pieces.size(), false);
  // Pieces begin where slots do, at multiples of 64 elements.
  const auto rows_of = [&](int64_t elements) { return (elements + pack.row - 1) / pack.row; };
  const ValueId device = add_pack(graph, pack, type, "device_parameters", {rows_of(on_device), "Device"});
  const ValueId host = add_pack(graph, pack, type, "host_parameters", {rows_of(on_host), "Host"});
  graph.value(host).on_host = true;
  for (size_t i = 0; i < pieces.size(); ++i) pieces[i].base = is_on_host[i] ? host : device;
  return places;
}

const CopyPiece* CopyPlaces::find(int64_t element) const {
  const auto found = std::ranges::find_if(
      pieces_, [&](const CopyPiece& piece) { return piece.first <= element && element < piece.end; });
  return found == pieces_.end() ? nullptr : &*found;
}

std::vector<CopyPiece> CopyPlaces::of_group(const models::Pack& pack,
                                            const models::ParameterGroup& group) const {
  const int64_t first = group.first_row * pack.row, end = first + group.rows.size * pack.row;
  std::vector<CopyPiece> cut;
  for (CopyPiece piece : pieces_) {
    if (piece.first < first) piece.at += first - piece.first;
    piece.first = std::max(piece.first, first);
    piece.end = std::min(piece.end, end);
    if (piece.first < piece.end) cut.push_back(piece);
  }
  return cut;
}

ValueId elements_of(ir::Graph& graph, ValueId packed, int64_t first, int64_t count, int64_t width,
                    const std::string& name) {
  Value view = graph.value(packed);
  const ir::Dim row = view.shape[1];
  view.name += "." + name;
  view.shape = {{count / width, ""}, width == row.size ? row : ir::Dim{width, ""}};
  view.view = ir::View{packed, first, 0, contiguous_strides(view.shape)};
  return graph.add(std::move(view));
}

}  // namespace hydrac::passes
