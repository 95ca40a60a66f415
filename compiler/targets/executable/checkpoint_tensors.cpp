#include "targets/executable/checkpoint_tensors.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "models/adapter.h"
#include "models/freeze.h"
#include "runtime/program/nf4.h"
#include "runtime/program/shared_bytes.h"

namespace hydrac::targets {

using runtime::NamedTensor;
using runtime::SafetensorsDtype;

SafetensorsDtype stored_type(ir::DType dtype) {
  static constexpr SafetensorsDtype types[] = {
#define HYDRAC_DTYPE(name, bytes, type, stored) SafetensorsDtype::stored,
#include "runtime/base/dtypes.def"
  };
  return types[static_cast<size_t>(dtype)];
}

namespace {

uint64_t address_of(const driver::Compiled& compiled, ir::ValueId value, int slot) {
  return static_cast<uint64_t>(plan::address(compiled.graph, compiled.plan, {value, {false, slot}}, 0));
}

}  // namespace

std::vector<runtime::Nf4Place> nf4_places(const driver::Compiled& compiled, const ir::Value& matrix,
                                          int slot) {
  const ir::Nf4Storage& stored = *matrix.parameter->nf4;
  runtime::Nf4Place next{address_of(compiled, stored.codes, slot),
                         address_of(compiled, stored.block_codes, slot),
                         address_of(compiled, stored.groups, slot)};
  std::vector<runtime::Nf4Place> places;
  for (const ir::RowRange& part : stored.parts) {
    next.elements = part.count * matrix.shape[1].size;
    places.push_back(next);
    next = runtime::behind(next);
  }
  return places;
}

runtime::SplitParameter split_of(const ir::Value& parameter) {
  const ir::Shape& whole = models::whole_shape(parameter);
  const int64_t row = element_count(whole) / whole[0].size;
  const auto& split = parameter.parameter->split;
  if (!split) return {1, row, {{0, whole[0].size, whole[0].size}}};
  runtime::SplitParameter result{split->ranks, row, {}};
  for (const ir::Split::Rows& rows : split->rows) result.rows.push_back({rows.first, rows.count, rows.own});
  return result;
}

std::vector<runtime::TensorPiece> pieces_of(const driver::Compiled& compiled, const ir::Value& parameter,
                                            int slot, ir::RowRange rows) {
  return runtime::pieces_of(split_of(parameter), rows.first, rows.count, 0,
                            address_of(compiled, parameter.id, slot), size_of(parameter.dtype));
}

bool is_pack_of_parts(const driver::Compiled& compiled, const ir::Value& state) {
  int64_t rows = 0;  // that a rank updates
  for (const models::ParameterGroup& group : compiled.pack.groups)
    rows += compiled.graph.value(group.own_parameters).shape[0].size;
  return compiled.pack.tensor_ranks > 1 && state.shape.size() == 2 && state.shape[0].size == rows &&
         state.shape[1].size == compiled.pack.row;
}

namespace {

// The element's index as one process counts it, without the padding of stretches (Stretch::place). `before`:
// rows of earlier groups.
int64_t place_of(const models::Pack& pack, const models::ParameterGroup& group, int64_t before,
                 int64_t element) {
  if (group.stretches.empty()) return element;
  const int64_t row = element / pack.row - group.first_row;
  const auto behind = std::ranges::upper_bound(group.stretches, row, {}, &models::Stretch::first_row);
  const models::Stretch& stretch = *std::prev(behind);
  const int64_t all = stretch.own * pack.sharing_ranks, within = row - stretch.first_row;
  const int64_t place = before + stretch.place + within / all * stretch.rows + within % all;
  return place * pack.row + element % pack.row;
}

}  // namespace

std::vector<runtime::PackedParameter> packed_parameters(const driver::Compiled& compiled) {
  std::vector<runtime::PackedParameter> packed;
  int64_t before = 0;
  for (const models::ParameterGroup& group : compiled.pack.groups) {
    for (const ir::ValueId member : group.members) {
      const ir::Value& value = compiled.graph.value(member);
      const ir::WholePlace& whole = value.parameter->whole_place;
      packed.push_back({split_of(value), models::whole_shape(value)[0].size, whole.offset, whole.stride,
                        place_of(compiled.pack, group, before, value.view->offset), value.view->slot_stride,
                        value.slots});
    }
    before += group.used_rows;
  }
  return packed;
}

namespace {

runtime::Nf4Place nf4_place(const driver::Compiled& compiled, const ir::Value& matrix, int64_t first_row,
                            int slot) {
  const auto& parts = matrix.parameter->nf4->parts;
  const auto part = std::ranges::find(parts, first_row, &ir::RowRange::first);
  return nf4_places(compiled, matrix, slot).at(static_cast<size_t>(part - parts.begin()));
}

std::vector<NamedTensor> tensors_of(const driver::Compiled& compiled, bool base) {
  std::vector<NamedTensor> tensors;
  for (const ir::Value& value : compiled.graph.values) {
    if (!value.parameter || is_base(compiled, value) != base) continue;
    const ir::Shape& shape = models::whole_shape(value);
    const int64_t row = element_count(shape) / shape[0].size;
    for (const ir::CheckpointPart& part : value.parameter->checkpoint) {
      for (int slot = part.first_slot; slot <= part.last_slot; ++slot) {
        NamedTensor tensor{.name = models::tensor_name(value, part, slot),
                           .shape = {part.rows},
                           .dtype = stored_type(value.dtype),
                           .transposed = part.transposed};
        if (value.parameter->nf4) {
          tensor.dtype = SafetensorsDtype::f32;
          tensor.nf4 = nf4_place(compiled, value, part.first_row, slot);
        } else if (value.parameter->split) {
          tensor.pieces = pieces_of(compiled, value, slot, {part.first_row, part.rows});
        } else {
          tensor.address = address_of(compiled, value.id, slot) +
                           static_cast<uint64_t>(part.first_row * row * size_of(value.dtype));
        }
        if (value.shape.size() == 2) tensor.shape.push_back(row);
        if (part.transposed) std::ranges::reverse(tensor.shape);
        tensors.push_back(std::move(tensor));
      }
    }
  }
  return tensors;
}

}  // namespace

bool is_base(const driver::Compiled& compiled, const ir::Value& parameter) {
  return models::has_adapters(compiled.spec) && !parameter.trains();
}

std::vector<NamedTensor> parameter_tensors(const driver::Compiled& compiled) {
  return tensors_of(compiled, false);
}

std::vector<NamedTensor> base_tensors(const driver::Compiled& compiled) {
  return tensors_of(compiled, true);
}

std::vector<NamedTensor> encoder_tensors(const driver::Compiled& compiled) {
  std::vector<NamedTensor> tensors;
  for (const models::EncoderTensor& of : compiled.interface.objective.encoder.tensors) {
    const ir::Value& value = compiled.graph.value(of.value);
    const int64_t row = element_count(value.shape) / value.shape[0].size;
    for (int slot = of.part.first_slot; slot <= of.part.last_slot; ++slot) {
      const auto first = static_cast<uint64_t>(of.part.first_row * row * size_of(value.dtype));
      NamedTensor tensor{.name = of.part.name,
                         .shape = {of.part.rows},
                         .dtype = stored_type(value.dtype),
                         .address = address_of(compiled, of.value, slot) + first};
      if (value.shape.size() == 2) tensor.shape.push_back(row);
      if (const size_t at = tensor.name.find("{}"); at != std::string::npos)
        tensor.name.replace(at, 2, std::to_string(slot));
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

std::vector<NamedTensor> optimizer_tensors(const driver::Compiled& compiled) {
  std::vector<NamedTensor> tensors;
  for (const ir::Value& value : compiled.graph.values) {
    if (value.role != ir::Role::optimizer_state || value.view) continue;
    NamedTensor tensor{.name = value.name, .dtype = stored_type(value.dtype)};
    for (const ir::Dim& dim : value.shape) tensor.shape.push_back(dim.size);
    tensor.address = address_of(compiled, value.id, 0);
    std::vector<runtime::SharedRows> stretches;
    for (const ir::SharedRows& rows : value.shared) stretches.push_back({rows.rows, rows.own, rows.times});
    if (!stretches.empty()) tensor = shared_by_ranks(std::move(tensor), stretches);
    if (is_pack_of_parts(compiled, value))
      tensor = whole_pack(std::move(tensor), compiled.pack.whole_rows, packed_parameters(compiled));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace hydrac::targets
