// Copies a tensor into another storage type: inputs of matmuls that arrive as f32, and the working
// copies of parameters.
#include "ops/shapes.h"

namespace hydrac::ops {

namespace {

ir::Body cast_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, k.full(0));
  return k.take();
}

void cast_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  out[0].data = in[0].data;
}

}  // namespace

extern const OpInfo kCast{.op = ir::Op::cast,
                          .formula = "copy = x",
                          .inputs = {"x"},
                          .outputs = {"copy"},
                          .body = cast_body,
                          .reference = cast_reference};

}  // namespace hydrac::ops
