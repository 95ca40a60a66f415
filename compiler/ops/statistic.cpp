// A logged number of a layer, which changes nothing that is computed: statistic += factor * sum of rows.
#include "ops/builder.h"
#include "ops/op.h"

namespace hydrac::ops {

void statistic(RegionBuilder& b, Use rows, double factor, Use into, bool accumulate) {
  b.emit_node(ir::Op::statistic, {rows}, {into}, {{"factor", factor}, {"accumulate", accumulate}});
}

namespace {

ir::Body statistic_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[0]).shape);
  k.row_sum(0, k.per_row(0) * k.constant(node.number("factor"), ir::ExprType::f32, "kFactor"),
            node.flag("accumulate"));
  return k.take();
}

void statistic_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  double sum = 0;
  for (const double x : in[0].data) sum += x;
  out[0].data[0] = node.number("factor") * sum;
}

}  // namespace

extern const OpInfo kStatistic{.op = ir::Op::statistic,
                               .formula = "statistic += factor * sum of rows",
                               .inputs = {"rows"},
                               .outputs = {"statistic"},
                               .body = statistic_body,
                               .reference = statistic_reference};

}  // namespace hydrac::ops
