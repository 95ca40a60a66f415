// The rows of chosen tokens, side by side, and back to where they came from: each is the other's gradient. A
// token has one place at most, so that nothing is added up. What no token has is 0 (spread_tokens).
#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

namespace {

ir::Shape with_tokens(ir::Shape shape, const ir::Dim& tokens) {
  shape[1] = tokens;
  return shape;
}

}  // namespace

Use take_tokens(RegionBuilder& b, Use x, const TokenChoice& choice, const std::string& name) {
  return b.emit(ir::Op::take_tokens, {x, choice.tokens, choice.places}, name,
                with_tokens(b.shape(x), b.shape(choice.tokens)[1]));
}

Use spread_tokens(RegionBuilder& b, Use x, const TokenChoice& choice, const std::string& name) {
  return b.emit(ir::Op::spread_tokens, {x, choice.tokens, choice.places}, name,
                with_tokens(b.shape(x), b.shape(choice.places)[1]));
}

namespace {

// A body with a row for each token of the output; [B,T] has no columns. `from`: the row of x that it reads,
// of its sequence.
class Moved {
 public:
  Moved(const ir::Graph& graph, const ir::Node& node)
      : k(graph, node, {graph.value(node.outputs[0]).shape[0], graph.value(node.outputs[0]).shape[1]}),
        has_columns_(graph.value(node.outputs[0]).shape.size() > 2) {
    const ir::Shape& shape = graph.value(node.outputs[0]).shape;
    if (has_columns_) k.columns({shape.begin() + 2, shape.end()});
  }

  ir::Term row_of_x(ir::Term from) {
    std::vector<ir::Affine> columns;
    if (has_columns_) columns = {k.column(0)};
    return k.gather(0, from, {k.row(0)}, columns);
  }
  void store(ir::Term value) { has_columns_ ? k.store(0, value) : k.store_row(0, value); }

  ir::BodyBuilder k;

 private:
  bool has_columns_;
};

ir::Body take_tokens_body(const ir::Graph& graph, const ir::Node& node) {
  Moved moved(graph, node);
  moved.store(moved.row_of_x(moved.k.named("token", moved.k.per_row(1))));
  return moved.k.take();
}

// A factor of the row, and no choice between two columns: loops over columns are then vectorized as those
// without it are, and add up in the same order.
ir::Body spread_tokens_body(const ir::Graph& graph, const ir::Node& node) {
  Moved moved(graph, node);
  ir::BodyBuilder& k = moved.k;
  const ir::Term place = k.named("place", k.per_row(2)), zero = k.constant(0, ir::ExprType::i32);
  const ir::Term kept = k.named("kept", select(place < zero, k.constant(0), k.constant(1)));
  moved.store(moved.row_of_x(k.named("from", max(place, zero))) * kept);
  return k.take();
}

template <ir::Op kInverse>
void moved_back(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], kInverse, {*g.of(node.outputs[0]), node.inputs[1], node.inputs[2]},
                  {{"input_name", "d_y"}, {"output_name", "d_x"}});
}

// `index`: the input that says which row of x each row of the output is, or -1.
template <size_t kIndex>
void moved_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t given = in[0].shape[1], tokens = out[0].shape[1];
  const int64_t c = static_cast<int64_t>(out[0].data.size()) / (out[0].shape[0] * tokens);
  for (int64_t r = 0; r < out[0].shape[0] * tokens; ++r) {
    const auto from = static_cast<int64_t>(in[kIndex].data[r]);
    for (int64_t i = 0; i < c; ++i)
      out[0].data[r * c + i] = from < 0 ? 0 : in[0].data[(r / tokens * given + from) * c + i];
  }
}

}  // namespace

extern const OpInfo kTakeTokens{.op = ir::Op::take_tokens,
                                .formula = "y[i] = x[tokens[i]]",
                                .inputs = {"x", "tokens", "places"},
                                .outputs = {"y"},
                                .body = take_tokens_body,
                                .gradient = moved_back<ir::Op::spread_tokens>,
                                .reference = moved_reference<1>};
extern const OpInfo kSpreadTokens{.op = ir::Op::spread_tokens,
                                  .formula = "y[t] = x[places[t]] kept, kept = [places[t] >= 0]",
                                  .inputs = {"x", "tokens", "places"},
                                  .outputs = {"y"},
                                  .body = spread_tokens_body,
                                  .gradient = moved_back<ir::Op::take_tokens>,
                                  .reference = moved_reference<2>};

}  // namespace hydrac::ops
