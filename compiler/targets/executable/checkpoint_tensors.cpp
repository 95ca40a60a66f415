#include "targets/executable/checkpoint_tensors.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include "models/adapter.h"
#include "models/freeze.h"
#include "runtime/program/nf4.h"
#include "runtime/program/shared_bytes.h"

namespace hydrac::targets {

using runtime::NamedTensor;
using runtime::SafetensorsDtype;

SafetensorsDtype stored_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f32:
      return SafetensorsDtype::f32;
    case ir::DType::bf16:
      return SafetensorsDtype::bf16;
    case ir::DType::f16:
      return SafetensorsDtype::f16;
    case ir::DType::f8e4m3:
      return SafetensorsDtype::f8_e4m3;
    case ir::DType::f8e5m2:
      return SafetensorsDtype::f8_e5m2;
    case ir::DType::i32:
      return SafetensorsDtype::i32;
    case ir::DType::u32:
      return SafetensorsDtype::u32;
    case ir::DType::u8:
      return SafetensorsDtype::u8;
  }
  throw std::logic_error("an element type that no checkpoint has");
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

namespace {

// `rows` of the whole parameter from byte `first` of a tensor on, and the rank's part of the parameter at
// `address`, in elements of so many bytes.
std::vector<runtime::TensorPiece> pieces_at(const ir::Value& parameter, ir::RowRange rows, int64_t first,
                                            uint64_t address, int64_t element) {
  const ir::Split& split = *parameter.parameter->split;
  const int64_t line = element_count(split.whole) / split.whole[0].size * element;
  if (split.axis == 1) {
    const int64_t own = line / split.ranks;
    return {
        {first, rows.count, line, line, own, split.ranks, address + static_cast<uint64_t>(rows.first * own)}};
  }
  std::vector<runtime::TensorPiece> pieces;
  for (const ir::Split::Rows& part : split.rows) {
    const int64_t count = std::min(part.first + part.count, rows.first + rows.count) - part.first;
    if (part.first >= rows.first && count > 0)
      pieces.push_back({first + (part.first - rows.first) * line, 1, 0, count * line, part.own * line,
                        split.ranks, address});
    address += static_cast<uint64_t>(part.own * line);
  }
  return pieces;
}

}  // namespace

std::vector<runtime::TensorPiece> pieces_of(const driver::Compiled& compiled, const ir::Value& parameter,
                                            int slot, ir::RowRange rows) {
  return pieces_at(parameter, rows, 0, address_of(compiled, parameter.id, slot), size_of(parameter.dtype));
}

namespace {

// Moments; other state is a few scalars, which all ranks have.
bool is_packed(const driver::Compiled& compiled, const ir::Value& value) {
  const auto sizes_are_equal = [](const ir::Dim& a, const ir::Dim& b) { return a.size == b.size; };
  return std::ranges::equal(value.shape, compiled.graph.value(compiled.pack.parameters).shape,
                            sizes_are_equal);
}

// Of a value that is packed as the parameters: where ranks share layers, the pack that one process has.
std::vector<runtime::TensorPiece> pieces_of_pack(const driver::Compiled& compiled, const ir::Value& packed) {
  const int64_t element = size_of(packed.dtype);
  const uint64_t start = address_of(compiled, packed.id, 0);
  std::vector<runtime::TensorPiece> pieces;
  for (const models::ParameterGroup& group : compiled.pack.groups) {
    for (const ir::ValueId member : group.members) {
      const ir::Value& value = compiled.graph.value(member);
      const ir::WholePlace& whole = value.parameter->whole_place;
      for (int slot = 0; slot < value.slots; ++slot) {
        const int64_t first = (whole.offset + slot * whole.stride) * element;
        const uint64_t address =
            start + static_cast<uint64_t>((value.view->offset + slot * value.view->slot_stride) * element);
        if (value.parameter->split) {
          const ir::RowRange all{0, value.parameter->split->whole[0].size};
          std::ranges::move(pieces_at(value, all, first, address, element), std::back_inserter(pieces));
          continue;
        }
        const int64_t bytes = element_count(value.shape) * element;
        pieces.push_back({first, 1, 0, bytes, bytes, 1, address});
      }
    }
  }
  return pieces;
}

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
    if (compiled.pack.tensor_ranks > 1 && is_packed(compiled, value)) {
      tensor.shape[0] = compiled.pack.whole_rows;
      tensor.pieces = pieces_of_pack(compiled, value);
    }
    tensors.push_back(stretches.empty() ? tensor : shared_by_ranks(tensor, stretches));
  }
  return tensors;
}

}  // namespace hydrac::targets
