#include "targets/executable/checkpoint_tensors.h"

#include <algorithm>
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
    const int64_t row = element_count(value.shape) / value.shape[0].size;
    for (const ir::CheckpointPart& part : value.parameter->checkpoint) {
      for (int slot = part.first_slot; slot <= part.last_slot; ++slot) {
        NamedTensor tensor{.name = models::tensor_name(value, part, slot),
                           .shape = {part.rows},
                           .dtype = stored_type(value.dtype),
                           .transposed = part.transposed};
        if (value.parameter->nf4) {
          tensor.dtype = SafetensorsDtype::f32;
          tensor.nf4 = nf4_place(compiled, value, part.first_row, slot);
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

std::vector<NamedTensor> optimizer_tensors(const driver::Compiled& compiled) {
  std::vector<NamedTensor> tensors;
  for (const ir::Value& value : compiled.graph.values) {
    if (value.role != ir::Role::optimizer_state || value.view) continue;
    NamedTensor tensor{.name = value.name, .dtype = stored_type(value.dtype)};
    for (const ir::Dim& dim : value.shape) tensor.shape.push_back(dim.size);
    tensor.address = address_of(compiled, value.id, 0);
    std::vector<runtime::SharedRows> stretches;
    for (const ir::SharedRows& rows : value.shared) stretches.push_back({rows.rows, rows.own, rows.times});
    tensors.push_back(stretches.empty() ? tensor : shared_by_ranks(tensor, stretches));
  }
  return tensors;
}

}  // namespace hydrac::targets
