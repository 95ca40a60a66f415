// A logged number of a layer, which changes nothing that is computed: statistic += factor * sum of rows,
// times a scale of the step where there is one.
#include "ops/builder.h"
#include "ops/op.h"

namespace hydrac::ops {

void statistic(RegionBuilder& b, Use rows, double factor, Use into, bool accumulate, Use scale) {
  std::vector<Use> inputs = {rows};
  if (scale.value != ir::kNoValue) inputs.push_back(scale);
  b.emit_node(ir::Op::statistic, std::move(inputs), {into}, {{"factor", factor}, {"accumulate", accumulate}});
}

namespace {

ir::Body statistic_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.inputs[0]).shape);
  const ir::Term factor = k.constant(node.number("factor"), ir::ExprType::f32, "kFactor");
  const ir::Term share = node.inputs.size() > 1 ? factor * k.scalar(1) : factor;
  k.row_sum(0, k.per_row(0) * share, node.flag("accumulate"));
  return k.take();
}

void statistic_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  double sum = 0;
  for (const double x : in[0].data) sum += x;
  out[0].data[0] = node.number("factor") * (in.size() > 1 ? in[1].data[0] : 1) * sum;
}

std::string statistic_formula(const ir::Node& node) {
  return node.inputs.size() > 1 ? "statistic += factor * scale * sum of rows"
                                : "statistic += factor * sum of rows";
}

}  // namespace

extern const OpInfo kStatistic{.op = ir::Op::statistic,
                               .formula = "statistic += factor * sum of rows",
                               .inputs = {"rows", "scale"},
                               .outputs = {"statistic"},
                               .formula_of = statistic_formula,
                               .body = statistic_body,
                               .reference = statistic_reference};

}  // namespace hydrac::ops
