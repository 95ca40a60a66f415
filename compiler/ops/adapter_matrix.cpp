// The second matrix of low-rank adapters that share their first matmul. Adapter i changes rows [first_i,
// first_i + rows_i) of a linear layer's outputs and reads columns [i * r, (i + 1) * r) of what the adapters'
// first matrices make, which lie one below the other. With zeros elsewhere, all adapters of a layer are two
// matmuls.
#include <algorithm>
#include <optional>
#include <string>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use adapter_matrix(RegionBuilder& b, Use up, const std::vector<ir::RowRange>& targets, ir::Dim columns,
                   double scale, const std::string& name) {
  ir::Attributes attributes = {{"scale", scale}};
  for (size_t i = 0; i < targets.size(); ++i) {
    attributes["first_" + std::to_string(i)] = targets[i].first;
    attributes["rows_" + std::to_string(i)] = targets[i].count;
  }
  return b.emit(ir::Op::adapter_matrix, {up}, name, {b.shape(up)[0], std::move(columns)},
                std::move(attributes));
}

namespace {

using ir::Term;

std::vector<ir::RowRange> targets_of(const ir::Node& node) {
  std::vector<ir::RowRange> targets;
  for (std::string i = "0"; node.attributes.contains("first_" + i); i = std::to_string(targets.size()))
    targets.push_back({node.integer("first_" + i), node.integer("rows_" + i)});
  return targets;
}

Term scale_of(ir::BodyBuilder& k, const ir::Node& node) {
  const ir::Number scale =
      ir::spec_number("adapter_scale", node.number("scale"), "adapter.alpha over adapter.r");
  return k.constant(scale, ir::ExprType::f32, "kAdapterScale");
}

// `value` in the rows of target `i`, 0 in those of others, of `rows` rows.
Term in_rows(ir::BodyBuilder& k, const ir::RowRange& target, size_t i, int64_t rows, Term value) {
  const auto number = [&](int64_t n) { return k.constant(static_cast<double>(n), ir::ExprType::i32); };
  const Term row = k.position(k.row(0));
  const int64_t end = target.first + target.count;
  std::optional<Term> inside;
  if (target.first > 0) inside = number(target.first) <= row;
  if (end < rows) inside = inside ? *inside && row < number(end) : row < number(end);
  if (!inside) return value;
  return select(k.named("of_adapter_" + std::to_string(i), *inside), value, k.constant(0));
}

// The column of target `i` that is at the column of `up`.
ir::Affine of_target(ir::BodyBuilder& k, size_t i, int64_t rank) {
  return k.column(0) + ir::Affine{static_cast<int64_t>(i) * rank, {}};
}

ir::Body adapter_matrix_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& up = graph.value(node.inputs[0]).shape;
  ir::BodyBuilder k(graph, node, {up[0]});
  const std::vector<ir::RowRange> targets = targets_of(node);
  for (size_t i = 0; i < targets.size(); ++i) {
    k.columns({up[1]});
    const Term scaled = k.full(0) * scale_of(k, node);
    k.store_at(0, {k.row(0), of_target(k, i, up[1].size)},
               in_rows(k, targets[i], i, up[0].size, k.named("scaled", scaled)));
  }
  return k.take();
}

// The second input is the gradient so far, where this one is added to it.
ir::Body adapter_matrix_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& up = graph.value(node.outputs[0]).shape;
  ir::BodyBuilder k(graph, node, {up[0]});
  k.columns({up[1]});
  Term of_targets;
  const std::vector<ir::RowRange> targets = targets_of(node);
  for (size_t i = 0; i < targets.size(); ++i) {
    const Term own =
        in_rows(k, targets[i], i, up[0].size, k.load(0, {k.row(0), of_target(k, i, up[1].size)}));
    of_targets = i == 0 ? own : of_targets + own;
  }
  const Term sum = of_targets * scale_of(k, node);
  k.store(0, node.inputs.size() > 1 ? k.full(1) + sum : sum);
  return k.take();
}

void adapter_matrix_gradient(Gradient& g, const ir::Node& node) {
  std::vector<Use> inputs = {*g.of(node.outputs[0])};
  const ParameterGradient up = g.parameter(node.inputs[0]);
  if (up.accumulate) inputs.push_back(up.target);
  g.emit_node(ir::Op::adapter_rows, std::move(inputs), {up.target}, node.attributes);
}

void adapter_matrix_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                              std::vector<Tensor64>& out) {
  const int64_t rank = in[0].shape[1], columns = out[0].shape[1];
  std::ranges::fill(out[0].data, 0);
  int64_t first = 0;
  for (const ir::RowRange& target : targets_of(node)) {
    for (int64_t row = target.first; row < target.first + target.count; ++row) {
      for (int64_t i = 0; i < rank; ++i)
        out[0].data[row * columns + first + i] = node.number("scale") * in[0].data[row * rank + i];
    }
    first += rank;
  }
}

}  // namespace

extern const OpInfo kAdapterMatrix{
    .op = ir::Op::adapter_matrix,
    .formula = "matrix = scale * up, each adapter's rows in its own columns, 0 elsewhere",
    .inputs = {"up"},
    .outputs = {"matrix"},
    .body = adapter_matrix_body,
    .gradient = adapter_matrix_gradient,
    .reference = adapter_matrix_reference};
extern const OpInfo kAdapterRows{.op = ir::Op::adapter_rows,
                                 .formula = "d_up = scale * each adapter's rows of its columns of d_matrix",
                                 .inputs = {"d_matrix", "d_up"},
                                 .outputs = {"d_up"},
                                 .body = adapter_matrix_gradient_body};

}  // namespace hydrac::ops
