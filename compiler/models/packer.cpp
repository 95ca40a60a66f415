#include "models/packer.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "models/parameters.h"
#include "models/sharing.h"

namespace hydrac::models {

namespace {

using ir::ValueId;

int64_t round_up(int64_t elements, int64_t multiple) {
  return (elements + multiple - 1) / multiple * multiple;
}

// Not so of a table of positions that is longer than sequences: nothing is written behind their end, where
// the gradient stays 0.
bool gradient_is_written_whole(const ir::Graph& graph, const ir::Value& parameter) {
  if (!parameter.trains()) return true;
  const ValueId gradient = gradient_of(graph, parameter);
  return std::ranges::none_of(graph.function("micro_step").regions, [&](const ir::Region& region) {
    return std::ranges::any_of(region.nodes, [&](const ir::Node& node) {
      return node.op == ir::Op::position_embedding_gradient && node.outputs[0].value == gradient &&
             graph.value(node.inputs[0]).shape[1].size < parameter.shape[0].size;
    });
  });
}

}  // namespace

std::string rows_symbol(const std::string& section, std::string symbol) {
  for (const char c : section.substr(0, section.rfind("_state")))
    if (std::islower(static_cast<unsigned char>(c)) != 0) symbol += c;
  return symbol;
}

ir::Shape pack_shape(int64_t elements, const std::string& section, int64_t row) {
  return {{elements / row, rows_symbol(section)}, {row, "Width"}};
}

ParameterGroup Packer::add(ParameterGroup group) {
  group.first_row = end_ / row_;
  const int64_t alignment = group.moments == ir::DType::u8 ? row_ : kAlignment;
  for (const bool decay : {true, false}) {
    int64_t together = end_;  // where those begin that ranks divide together
    if (tensor_ranks_ > 1) {
      place_in_whole(group.members, decay, alignment);
      place_split(group, decay, alignment, together);
    }
    place_all(group, decay, false, alignment, together);
    close(group, together, decay ? "rest" : "vectors");
    if (!decay) continue;
    group.decayed_rows = group.used_rows;
    group.own_decayed_rows = sharing_ranks_ > 1 ? own_rows(group) : group.used_rows;
  }
  group.rows = pack_shape(end_ - group.first_row * row_, group.name, row_)[0];
  return group;
}

void Packer::place(const std::vector<ValueId>& members) {
  for (const ValueId member : members) place(member, kAlignment);
  end_ = round_up(end_, row_);
}

bool Packer::divides(ValueId id) const {
  const ir::Value& value = graph_.value(id);
  return sharing_ranks_ > 1 && end_ % row_ == 0 &&
         element_count(value.shape) % (row_ * sharing_ranks_) == 0 &&
         gradient_is_written_whole(graph_, value);
}

int64_t Packer::own_rows(const ParameterGroup& group) {
  if (group.stretches.empty()) return 0;
  const Stretch& last = group.stretches.back();
  return last.first_own_row + last.slots * last.own;
}

void Packer::add_stretch(ParameterGroup& group, ValueId member) {
  const ir::Value& value = graph_.value(member);
  const int64_t rows = value.view->slot_stride / row_;
  group.stretches.push_back({.name = value.name,
                             .member = member,
                             .slots = value.slots,
                             .rows = rows,
                             .own = rows / sharing_ranks_,
                             .first_row = value.view->offset / row_ - group.first_row,
                             .first_own_row = own_rows(group),
                             .place = group.used_rows});
  group.used_rows += rows * value.slots;
}

void Packer::close(ParameterGroup& group, int64_t first, const std::string& name) {
  const int64_t rows = round_up(end_ - first, row_) / row_;
  if (rows == 0) return;
  const int64_t own = round_up(rows, sharing_ranks_) / sharing_ranks_;
  end_ = first + own * sharing_ranks_ * row_;
  if (sharing_ranks_ > 1)
    group.stretches.push_back({.name = name + (group.name.empty() ? "" : "_" + group.name),
                               .rows = rows,
                               .own = own,
                               .first_row = first / row_ - group.first_row,
                               .first_own_row = own_rows(group),
                               .place = group.used_rows});
  group.used_rows += rows;
}

void Packer::place_all(ParameterGroup& group, bool decay, bool split, int64_t alignment, int64_t& together) {
  for (const ValueId member : group.members) {
    const ir::ParameterInfo& info = *graph_.value(member).parameter;
    if (info.decay != decay || info.split.has_value() != split) continue;
    const bool is_alone = decay && divides(member);
    if (is_alone) close(group, together, "rest");
    place(member, alignment);
    if (!is_alone) continue;
    add_stretch(group, member);
    together = end_;
  }
}

void Packer::place_in_whole(const std::vector<ValueId>& members, bool decay, int64_t alignment) {
  for (const ValueId member : members) {
    ir::Value& value = graph_.value(member);
    if (value.parameter->decay != decay) continue;
    const int64_t stride = round_up(element_count(whole_shape(value)), alignment);
    value.parameter->whole_place = {whole_end_, stride};
    whole_end_ += stride * value.slots;
  }
  whole_end_ = round_up(whole_end_, row_);
}

void Packer::place_split(ParameterGroup& group, bool decay, int64_t alignment, int64_t& together) {
  const int64_t first = group.used_rows;
  place_all(group, decay, true, alignment, together);
  end_ = round_up(end_, row_);
  if (decay) {
    close(group, together, "split_rest");
    together = end_;
  }
  group.split_rows.push_back({first, group.used_rows + (end_ - together) / row_ - first});
}

void Packer::place(ValueId id, int64_t alignment) {
  ir::Value& value = graph_.value(id);
  const int64_t stride = round_up(element_count(value.shape), alignment);
  value.dtype = dtype_;
  value.view = ir::View{pack_, end_, stride, contiguous_strides(value.shape)};
  end_ += stride * value.slots;
}

}  // namespace hydrac::models
