// Rows for experts: of the tokens' choices [..,k], each a token and an expert, those of an expert lie
// together, in the order of the tokens, from a multiple of `block` rows on. expert_rows() sorts them;
// expert_inputs() takes the tokens' rows there, and combined_rows() sums each token's rows in the order of
// its choices. These two are each other's gradient.
#include <algorithm>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

ExpertRows expert_rows(RegionBuilder& b, Use chosen, int64_t experts, int64_t block) {
  const ir::Shape choices = b.shape(chosen);
  const int64_t most = element_count(choices) + experts * (block - 1);
  ir::Dim rows{(most + block - 1) / block * block, ""};
  for (const ir::Dim& dim : choices)
    if (block == 1) rows.symbol += dim.symbol;
  const ExpertRows made{b.fresh("expert_rows.source", {rows}, ir::DType::i32),
                        b.fresh("expert_rows.place", choices, ir::DType::i32),
                        b.fresh("expert_rows.offsets", {{experts + 1, ""}}, ir::DType::i32)};
  b.emit_node(ir::Op::expert_rows, {chosen}, {made.source, made.place, made.offsets}, {{"block", block}});
  return made;
}

Use expert_inputs(RegionBuilder& b, Use x, const ExpertRows& rows, const std::string& name) {
  return b.emit(ir::Op::expert_inputs, {x, rows.source, rows.place, {}}, name,
                {b.shape(rows.source)[0], b.shape(x).back()});
}

Use combined_rows(RegionBuilder& b, Use x, const ExpertRows& rows, Use weights, const std::string& name) {
  return b.emit(ir::Op::combined_rows, {x, rows.source, rows.place, weights}, name,
                with_last(b.shape(rows.place), b.shape(x).back()));
}

namespace {

using ir::ExprType;
using ir::Term;

enum Input { kX, kSource, kPlace, kWeights };

bool takes_weights(const ir::Node& node) {
  return node.inputs[kWeights].value != ir::kNoValue;
}

ir::BodyBuilder over_output(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.outputs[0]).shape;
  ir::BodyBuilder k(graph, node, leading(shape));
  k.columns(last(shape));
  return k;
}

// In front of a gather that counts all tokens, or all choices.
std::vector<ir::Affine> zeros(size_t count) {
  return std::vector<ir::Affine>(count);
}

// A factor of the row, and no choice between two columns: loops over columns are then vectorized as those
// without it are.
ir::Body expert_inputs_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& choices = graph.value(node.inputs[kPlace]).shape;
  ir::BodyBuilder k = over_output(graph, node);
  const Term source = k.named("source", k.per_row(kSource)), zero = k.constant(0, ExprType::i32);
  const Term choice = k.named("choice", max(source, zero));
  const Term token = k.named("token", choice / static_cast<double>(choices.back().size));
  Term factor = k.named("is_row", select(source < zero, k.constant(0), k.constant(1)));
  if (takes_weights(node))
    factor = k.named("weight", k.gather(kWeights, choice, zeros(choices.size() - 1), {})) * factor;
  k.store(0, k.gather(kX, token, zeros(choices.size() - 2), {k.column(0)}) * factor);
  return k.take();
}

ir::Body combined_rows_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& choices = graph.value(node.inputs[kPlace]).shape;
  ir::BodyBuilder k = over_output(graph, node);
  std::vector<ir::Affine> choice;
  for (size_t i = 0; i + 1 < choices.size(); ++i) choice.push_back(k.row(static_cast<int>(i)));
  choice.emplace_back();
  std::optional<Term> sum;
  for (int64_t j = 0; j < choices.back().size; ++j) {
    choice.back().constant = j;
    Term row = k.gather(kX, k.load(kPlace, choice), {}, {k.column(0)});
    if (takes_weights(node)) row = row * k.load(kWeights, choice);
    sum = sum ? *sum + row : row;
  }
  k.store(0, *sum);
  return k.take();
}

// Inputs: d_y [..,C], x [rows,C], place.
ir::Body combined_rows_weight_gradient_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& choices = graph.value(node.outputs[0]).shape;
  ir::BodyBuilder k(graph, node, choices);
  k.columns(last(graph.value(node.inputs[0]).shape));
  std::vector<ir::Affine> token;
  for (size_t i = 0; i + 1 < choices.size(); ++i) token.push_back(k.row(static_cast<int>(i)));
  token.push_back(k.column(0));
  const Term row = k.gather(1, k.named("place", k.per_row(2)), {}, {k.column(0)});
  k.store_row(0, k.sum(k.load(0, token) * row));
  return k.take();
}

ir::Attributes moved_names() {
  return {{"input_name", "d_y"}, {"output_name", "d_x"}};
}

void expert_inputs_gradient(Gradient& g, const ir::Node& node) {
  std::vector<Use> inputs = node.inputs;
  inputs[kX] = *g.of(node.outputs[0]);
  g.contribute_op(node.inputs[kX], ir::Op::combined_rows, inputs, moved_names());
}

void combined_rows_gradient(Gradient& g, const ir::Node& node) {
  std::vector<Use> inputs = node.inputs;
  inputs[kX] = *g.of(node.outputs[0]);
  g.contribute_op(node.inputs[kX], ir::Op::expert_inputs, inputs, moved_names());
  if (takes_weights(node))
    g.contribute_op(node.inputs[kWeights], ir::Op::combined_rows_weight_gradient,
                    {inputs[kX], node.inputs[kX], node.inputs[kPlace]});
}

void expert_rows_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                           std::vector<Tensor64>& out) {
  std::vector<double>&source = out[0].data, &place = out[1].data, &offsets = out[2].data;
  const auto block = static_cast<size_t>(node.integer("block"));
  std::ranges::fill(source, -1);
  size_t row = 0;
  for (size_t expert = 0; expert < offsets.size(); ++expert) {
    offsets[expert] = static_cast<double>(row);
    for (size_t choice = 0; choice < in[0].data.size(); ++choice) {
      if (in[0].data[choice] != static_cast<double>(expert)) continue;
      place[choice] = static_cast<double>(row);
      source[row++] = static_cast<double>(choice);
    }
    row = (row + block - 1) / block * block;
  }
}

Cost expert_rows_cost(const ir::Graph& graph, const ir::Node& node) {
  double bytes = 0;
  for (const Use use : {node.inputs[0], node.outputs[0], node.outputs[1]})
    bytes += 4 * static_cast<double>(element_count(graph.value(use).shape));
  return {0, bytes};
}

double choice_weight(const std::vector<Tensor64>& in, size_t choice) {
  return in[kWeights].data.empty() ? 1 : in[kWeights].data[choice];
}

void expert_inputs_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const auto columns = static_cast<size_t>(in[kX].shape.back()),
             choices = static_cast<size_t>(in[kPlace].shape.back());
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    const double source = in[kSource].data[i / columns];
    const auto choice = static_cast<size_t>(std::max(source, 0.0));
    const double x = in[kX].data[choice / choices * columns + i % columns] * choice_weight(in, choice);
    out[0].data[i] = source < 0 ? 0 : x;
  }
}

void combined_rows_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const auto columns = static_cast<size_t>(in[kX].shape.back()),
             choices = static_cast<size_t>(in[kPlace].shape.back());
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    out[0].data[i] = 0;
    for (size_t choice = i / columns * choices; choice < (i / columns + 1) * choices; ++choice) {
      const auto row = static_cast<size_t>(in[kPlace].data[choice]);
      out[0].data[i] += in[kX].data[row * columns + i % columns] * choice_weight(in, choice);
    }
  }
}

std::string expert_inputs_formula(const ir::Node& node) {
  return takes_weights(node) ? "y[i] = x[token of source[i]] weights[source[i]], 0 where source[i] < 0"
                             : "y[i] = x[token of source[i]], 0 where source[i] < 0";
}
std::string combined_rows_formula(const ir::Node& node) {
  return takes_weights(node) ? "y = sum of x[places] weights, in order" : "y = sum of x[places], in order";
}

}  // namespace

extern const OpInfo kExpertRows{.op = ir::Op::expert_rows,
                                .formula =
                                    "source = choices in the order of their experts, -1 between them; "
                                    "place = where each choice is; offsets = experts' first rows",
                                .cost = expert_rows_cost,
                                .reference = expert_rows_reference};
extern const OpInfo kExpertInputs{.op = ir::Op::expert_inputs,
                                  .formula = "y[i] = x[token of source[i]], 0 where source[i] < 0",
                                  .inputs = {"x", "source", "places", "weights"},
                                  .outputs = {"y"},
                                  .formula_of = expert_inputs_formula,
                                  .body = expert_inputs_body,
                                  .gradient = expert_inputs_gradient,
                                  .reference = expert_inputs_reference};
extern const OpInfo kCombinedRows{.op = ir::Op::combined_rows,
                                  .formula = "y = sum of x[places] weights, in order",
                                  .inputs = {"x", "source", "places", "weights"},
                                  .outputs = {"y"},
                                  .formula_of = combined_rows_formula,
                                  .body = combined_rows_body,
                                  .gradient = combined_rows_gradient,
                                  .reference = combined_rows_reference};
extern const OpInfo kCombinedRowsWeightGradient{.op = ir::Op::combined_rows_weight_gradient,
                                                .formula = "d_weights = sum of d_y x[places]",
                                                .inputs = {"d_y", "x", "places"},
                                                .outputs = {"d_weights"},
                                                .body = combined_rows_weight_gradient_body};

}  // namespace hydrac::ops
