// Causal convolution over time: y[t] = sum over taps j of W_j x[t - j], tokens before the sequence, or before
// the token's document where sequences have several, being zeros. A linear layer computes all W_j x[t] (the
// weight is [taps * out, in], tap 0 first); sum_taps then adds the rows of earlier tokens, and fuses with
// what reads the sums.
#include <algorithm>
#include <optional>
#include <stdexcept>

#include "ops/builder.h"
#include "ops/documents.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

std::vector<Use> sum_taps(RegionBuilder& b, Use products, int64_t taps, const std::vector<TapSums>& parts,
                          int64_t before, Use documents) {
  std::vector<Use> sums;
  for (const TapSums& part : parts) {
    ir::Shape shape = {b.shape(products)[0], without(before, b.shape(products)[1])};
    shape.insert(shape.end(), part.shape.begin(), part.shape.end());
    sums.push_back(b.fresh(part.name, std::move(shape)));
  }
  std::vector<Use> inputs = {products};
  if (documents.value != ir::kNoValue) inputs.push_back(documents);
  b.emit_node(ir::Op::sum_taps, std::move(inputs), sums, {{"taps", taps}});
  return sums;
}

namespace {

using ir::Affine;
using ir::ExprType;
using ir::Term;

// Rows and columns over parts [B,T,W] or [B,T,H,D]. A row is a token, of one part alone a token's head, so
// that it can be a row of what reads it.
class PartRows {
 public:
  PartRows(const ir::Graph& graph, const ir::Node& node, const std::vector<Use>& parts)
      : graph_(graph), row_dimensions_(parts.size() == 1 ? graph.value(parts[0]).shape.size() - 1 : 2) {
    const ir::Shape& shape = graph.value(parts[0]).shape;
    k_.emplace(graph, node,
               ir::Shape{shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(row_dimensions_)});
  }

  ir::BodyBuilder& builder() { return *k_; }

  // From here on columns are those of `part`. Its index behind the token, and the same as one number.
  void enter(Use part) {
    const ir::Shape& shape = graph_.value(part).shape;
    k_->columns({shape.begin() + static_cast<std::ptrdiff_t>(row_dimensions_), shape.end()});
    element.clear();
    channel = {};
    width = 1;
    for (size_t d = 2; d < shape.size(); ++d) {
      const int at = static_cast<int>(d);
      const int rows = static_cast<int>(row_dimensions_);
      element.push_back(at < rows ? k_->row(at) : k_->column(at - rows));
      channel = channel * shape[d].size + element.back();
      width *= shape[d].size;
    }
  }

  std::vector<Affine> element;
  Affine channel;
  int64_t width = 1;

 private:
  const ir::Graph& graph_;
  const size_t row_dimensions_;
  std::optional<ir::BodyBuilder> k_;
};

// The rows [B,before+T,..] that a shift reads.
struct Shifted {
  int input = 0;
  int64_t tokens = 0;        // that the input has
  int64_t before = 0;        // of which come before the first one that is computed
  int documents = kNoInput;  // the input of the tokens' documents; kNoInput: a sequence is one
};

// input[b, t + shift, channel], 0 outside the sequence or the token's document.
Term shifted(ir::BodyBuilder& k, const Shifted& of, int64_t shift, std::vector<Affine> channel) {
  shift += of.before;
  if (shift == 0 || (of.before > 0 && shift > 0)) {
    channel.insert(channel.begin(), {k.row(0), k.row(1) + Affine{shift, {}}});
    return k.load(of.input, std::move(channel));
  }
  const Term at = k.named(shift < 0 ? "earlier" : "later",
                          convert(k.position(k.row(1) + Affine{shift, {}}), ExprType::i32));
  const Term limit = shift < 0 ? first_token(k, of.documents) : last_token(k, of.documents, of.tokens);
  const Term inside = k.named(is_inside(of.documents), shift < 0 ? limit <= at : at <= limit);
  const Term nearest = k.named("token", shift < 0 ? max(at, limit) : min(at, limit));
  return select(inside, k.gather(of.input, nearest, {k.row(0)}, std::move(channel)), k.constant(0));
}

ir::Body causal_conv_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& products = graph.value(node.inputs[0]).shape;
  const int64_t taps = node.integer("taps"), width = products[2].size / taps;
  const Shifted of{.tokens = products[1].size,
                   .before = products[1].size - graph.value(node.outputs[0]).shape[1].size,
                   .documents = optional_input(node, 1)};
  PartRows rows(graph, node, node.outputs);
  ir::BodyBuilder& k = rows.builder();
  Affine first;
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    rows.enter(node.outputs[o]);
    const auto product = [&](int64_t tap) {
      return shifted(k, of, -tap, {rows.channel + first + Affine{tap * width, {}}});
    };
    Term sum = product(0);
    for (int64_t tap = 1; tap < taps; ++tap) sum = sum + product(tap);
    k.store(static_cast<int>(o), sum);
    first.constant += rows.width;
  }
  return k.take();
}

// Documents of "spread_taps", which stand behind two parts, or behind one and no value.
constexpr int kSpreadDocuments = 2;

std::vector<Use> spread_parts(const ir::Node& node) {
  std::vector<Use> parts = node.inputs;
  std::erase_if(parts, [](Use part) { return part.value == ir::kNoValue; });
  if (optional_input(node, kSpreadDocuments) != kNoInput) parts.pop_back();
  return parts;
}

ir::Body spread_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& products = graph.value(node.outputs[0]).shape;
  const int64_t taps = node.integer("taps"), width = products[2].size / taps;
  const std::vector<Use> parts = spread_parts(node);
  PartRows rows(graph, node, parts);
  ir::BodyBuilder& k = rows.builder();
  Affine first;
  for (size_t i = 0; i < parts.size(); ++i) {
    rows.enter(parts[i]);
    const Shifted of{.input = static_cast<int>(i),
                     .tokens = products[1].size,
                     .documents = optional_input(node, kSpreadDocuments)};
    for (int64_t tap = 0; tap < taps; ++tap) {
      k.store_at(0, {k.row(0), k.row(1), rows.channel + first + Affine{tap * width, {}}},
                 shifted(k, of, tap, rows.element));
    }
    first.constant += rows.width;
  }
  return k.take();
}

void causal_conv_gradient(Gradient& g, const ir::Node& node) {
  if (g.shape(node.inputs[0])[1] != g.shape(node.outputs[0])[1])
    throw std::logic_error("tokens that are only read have no gradient");
  std::vector<Use> inputs;
  for (Use output : node.outputs) inputs.push_back(*g.of(output));
  if (optional_input(node, 1) != kNoInput) {
    inputs.resize(kSpreadDocuments);
    inputs.push_back(node.inputs[1]);
  }
  g.contribute_op(node.inputs[0], ir::Op::spread_taps, std::move(inputs), node.attributes);
}

void causal_conv_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                           std::vector<Tensor64>& out) {
  const Tensor64& products = in[0];
  const int64_t taps = node.integer("taps"), given = products.shape[1], row = products.shape[2];
  const bool has_documents = optional_input(node, 1) != kNoInput;
  int64_t first = 0;
  for (Tensor64& part : out) {
    const int64_t tokens = part.shape[1], rows = part.shape[0] * tokens;
    const int64_t width = static_cast<int64_t>(part.data.size()) / rows;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t token = r % tokens + given - tokens;
      const int64_t begin = has_documents ? static_cast<int64_t>(in[1].data[2 * r]) : 0;
      for (int64_t c = 0; c < width; ++c) {
        double sum = 0;
        for (int64_t tap = 0; tap <= std::min(taps - 1, token - begin); ++tap)
          sum += products.data[(r / tokens * given + token - tap) * row + tap * (row / taps) + first + c];
        part.data[r * width + c] = sum;
      }
    }
    first += width;
  }
}

}  // namespace

// One or two outputs: parts of the channels, side by side.
extern const OpInfo kSumTaps{.op = ir::Op::sum_taps,
                             .formula = "y[t] = sum over taps j of products[t - j, j]",
                             .inputs = {"products", "documents"},
                             .outputs = {"y", "y2"},
                             .body = causal_conv_body,
                             .gradient = causal_conv_gradient,
                             .reference = causal_conv_reference};
extern const OpInfo kSpreadTaps{.op = ir::Op::spread_taps,
                                .formula = "d_products[t, j] = d_y[t + j]",
                                .inputs = {"d_y", "d_y2", "documents"},
                                .outputs = {"d_products"},
                                .body = spread_body};

}  // namespace hydrac::ops
