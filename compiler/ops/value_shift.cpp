// Values of two times: the first half of a token's kv width is its own, the second half is that of the token
// before it (zeros at the first one, of a document where sequences have several). The halves are of the
// width, not of each head: with an odd number of heads they meet inside one.
#include <stdexcept>

#include "ops/builder.h"
#include "ops/documents.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use value_shift(RegionBuilder& b, Use v, const std::string& name, int64_t before, Use documents) {
  ir::Shape shape = b.shape(v);
  shape[1] = without(before, shape[1]);
  std::vector<Use> inputs = {v};
  if (documents.value != ir::kNoValue) inputs.push_back(documents);
  return b.emit(ir::Op::value_shift, std::move(inputs), name, std::move(shape), {{"inverse", false}});
}

namespace {

using ir::Affine;
using ir::ExprType;
using ir::Term;

// A row is a head of a token, in two halves: half i of head k is half 2k + i of the width's 2K. The inverse
// brings the gradients of the second half back by a token.
ir::Body value_shift_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape &given = graph.value(node.inputs[0]).shape,
                  &shape = graph.value(node.outputs[0]).shape;  // [B,T,K,D]
  const int64_t before = given[1].size - shape[1].size;         // rows that are only read
  const int64_t tokens = shape[1].size, heads = shape[2].size, half = shape[3].size / 2;
  const bool inverse = node.flag("inverse");
  const int documents = optional_input(node, 1);
  ir::BodyBuilder k(graph, node, leading(shape));
  k.columns({{half, shape[3].symbol.empty() ? "" : shape[3].symbol + "/2"}});
  const auto integer = [&](const Affine& affine) { return convert(k.position(affine), ExprType::i32); };
  const Affine row = k.row(1) + Affine{before, {}};
  const Term own = k.named("own", integer(row));
  const Term other = k.named(inverse ? "later" : "earlier", integer(row + Affine{inverse ? 1 : -1, {}}));
  const Term limit = inverse ? last_token(k, documents, tokens) : first_token(k, documents);
  const Term inside = k.named(is_inside(documents), inverse ? other <= limit : limit <= other);
  const Term nearest = inverse ? min(other, limit) : max(other, limit);
  const Term first_shifted = k.constant(static_cast<double>(heads), ExprType::i32, "kFirstShifted");
  for (int64_t i = 0; i < 2; ++i) {
    const Affine element = k.column(0) + Affine{i * half, {}};
    const Term half_head = k.named("half_head", integer(k.row(2) * 2 + Affine{i, {}}));
    const Term is_shifted = k.named("is_shifted", first_shifted <= half_head);
    const Term token = k.named("token", select(is_shifted, nearest, own));
    const Term value = k.gather(0, token, {k.row(0)}, {k.row(2), element});
    k.store_at(0, {k.row(0), k.row(1), k.row(2), element},
               select(is_shifted && !inside, k.constant(0), value));
  }
  return k.take();
}

void value_shift_gradient(Gradient& g, const ir::Node& node) {
  if (g.shape(node.inputs[0])[1] != g.shape(node.outputs[0])[1])
    throw std::logic_error("tokens that are only read have no gradient");
  std::vector<Use> inputs = node.inputs;
  inputs[0] = *g.of(node.outputs[0]);
  g.contribute_op(node.inputs[0], ir::Op::value_shift, std::move(inputs),
                  {{"inverse", true}, {"input_name", "d_y"}, {"output_name", "d_v"}});
}

std::string value_shift_kernel(const ir::Node& node) {
  return node.flag("inverse") ? "value_shift_backward" : "value_shift";
}

void value_shift_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                           std::vector<Tensor64>& out) {
  const int64_t given = in[0].shape[1], tokens = out[0].shape[1], width = in[0].shape[2] * in[0].shape[3];
  const int64_t rows = in[0].shape[0] * tokens, step = node.flag("inverse") ? 1 : -1;
  const bool has_documents = optional_input(node, 1) != kNoInput;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = has_documents ? static_cast<int64_t>(in[1].data[2 * r]) : 0,
                  end = has_documents ? static_cast<int64_t>(in[1].data[2 * r + 1]) : given;
    for (int64_t c = 0; c < width; ++c) {
      const int64_t from = r % tokens + given - tokens + (c < width / 2 ? 0 : step);
      const bool inside = from >= begin && from < end;
      out[0].data[r * width + c] = inside ? in[0].data[(r / tokens * given + from) * width + c] : 0;
    }
  }
}

}  // namespace

extern const OpInfo kValueShift{.op = ir::Op::value_shift,
                                .formula = "y[t] = (the first half of v[t], the second of v[t - 1])",
                                .inputs = {"v", "documents"},
                                .outputs = {"y"},
                                .kernel = value_shift_kernel,
                                .body = value_shift_body,
                                .gradient = value_shift_gradient,
                                .reference = value_shift_reference};

}  // namespace hydrac::ops
