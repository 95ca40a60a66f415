#include "models/nf4.h"

#include <vector>

#include "hydrac/nf4.h"
#include "ops/nf4.h"

namespace hydrac::models {

namespace {

ir::ValueId add_storage(ir::Graph& graph, const ir::Value& matrix, const std::string& suffix, ir::DType dtype,
                        ir::Shape shape) {
  ir::Value value;
  value.name = matrix.name + suffix;
  value.role = ir::Role::frozen;
  value.slots = matrix.slots;
  value.dtype = dtype;
  value.shape = std::move(shape);
  return graph.add(std::move(value));
}

}  // namespace

bool is_nf4_matrix(const ir::Value& value) {
  return value.parameter && value.role == ir::Role::frozen && !value.parameter->matrices.empty();
}

void keep_as_nf4(ir::Graph& graph) {
  std::vector<ir::ValueId> matrices;
  for (const ir::Value& value : graph.values) {
    if (is_nf4_matrix(value)) matrices.push_back(value.id);
  }
  for (const ir::ValueId id : matrices) {
    const ir::Value matrix = graph.value(id);
    const ir::Dim rows = matrix.shape[0];
    const int64_t columns = matrix.shape[1].size;
    ir::Nf4Storage stored;
    for (const ir::CheckpointPart& part : matrix.parameter->checkpoint)
      stored.parts.push_back({part.first_row, part.rows});
    stored.codes = add_storage(graph, matrix, ".codes", ir::DType::u8, {rows, {columns / 2, ""}});
    stored.block_codes =
        add_storage(graph, matrix, ".block_codes", ir::DType::u8, {rows, {columns / kNf4Block, ""}});
    stored.groups = add_storage(graph, matrix, ".groups", ir::DType::f32,
                                {{ops::nf4_groups(stored.parts, columns), ""}, {2, ""}});
    graph.value(id).parameter->nf4 = std::move(stored);
  }
}

}  // namespace hydrac::models
