// y = x * factor, with a factor for each row, such as whether the rank has the row's token in its part of the
// vocabulary.
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use scale_rows(RegionBuilder& b, Use x, Use factor, const std::string& name) {
  return b.emit(ir::Op::scale_rows, {x, factor}, name, b.shape(x));
}

namespace {

ir::Body scale_rows_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  k.store(0, k.full(0) * k.per_row(1));
  return k.take();
}

void scale_rows_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::scale_rows, {*g.of(node.outputs[0]), node.inputs[1]},
                  {{"input_name", "d_y"}, {"output_name", "d_x"}});
}

void scale_rows_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const size_t columns = static_cast<size_t>(in[0].shape.back());
  for (size_t i = 0; i < out[0].data.size(); ++i) out[0].data[i] = in[0].data[i] * in[1].data[i / columns];
}

}  // namespace

extern const OpInfo kScaleRows{.op = ir::Op::scale_rows,
                               .formula = "y = x * factor, of each row",
                               .inputs = {"x", "factor"},
                               .outputs = {"y"},
                               .body = scale_rows_body,
                               .gradient = scale_rows_gradient,
                               .reference = scale_rows_reference};

}  // namespace hydrac::ops
