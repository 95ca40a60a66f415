// Cross-entropy of softmax(logits) against token ids, one loss a row, with label smoothing e (Szegedy et al.,
// 2016):
//   loss = lse - (1-e) * x[target] - e * mean(x),  d_x = (softmax(x) - (1-e) * [c = target] - e/V) * d_loss.
// Rows with the target -100 are ignored: loss and gradient 0. With a softcap c, x is c * tanh(logits / c),
// and d_logits = d_x * (1 - tanh^2).
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/logit.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use cross_entropy(RegionBuilder& b, Use logits, Use targets, int64_t classes, double softcap,
                  double label_smoothing, const std::string& name) {
  ir::Attributes attributes = {{"label_smoothing", label_smoothing}, {"ignore_index", kIgnoredTarget}};
  if (softcap > 0) attributes["softcap"] = softcap;
  if (classes != b.shape(logits).back().size) attributes["classes"] = classes;
  const Use rows =
      b.emit(ir::Op::cross_entropy, {logits, targets}, name, b.shape(targets), std::move(attributes));
  b.region().nodes.back().outputs.push_back(b.exact(b.fresh(name + ".lse", b.shape(targets))));
  return b.exact(rows);
}

namespace {

using ir::ExprType;
using ir::Term;

// Rows of logits may end in padding, which is no class.
struct Classes {
  Classes(ir::BodyBuilder& k, const ir::Graph& graph, const ir::Node& node) : k(k) {
    const int64_t columns = graph.value(node.inputs[0]).shape.back().size;
    padded = node.attributes.contains("classes");
    count = padded ? node.integer("classes") : columns;
  }

  // `x` in the columns of classes, `padding` in the others.
  Term only(Term x, double padding) const {
    if (!padded) return x;
    return select(k.named("is_class", k.position(k.column(0)) <
                                          k.constant(number_of_classes(count), ExprType::i64, "kClasses")),
                  x, k.constant(padding));
  }

  ir::BodyBuilder& k;
  bool padded = false;
  int64_t count = 0;
};

// e, and what the losses are made of with it.
struct Smoothing {
  Smoothing(ir::BodyBuilder& k, const ir::Node& node)
      : e(ir::spec_number("label_smoothing", node.number("label_smoothing"), "train.label_smoothing")),
        k(k) {}

  bool is_on() const { return e.value > 0; }
  Term of_target() const { return number(1 - e, "kOfTarget"); }
  Term of_all() const { return number(e, "kOfAll"); }
  Term of_each(int64_t classes) const { return number(e / number_of_classes(classes), "kOfEach"); }

 private:
  Term number(const ir::Number& number, const char* name) const {
    return k.constant(number, ExprType::f32, name);
  }

  ir::Number e;
  ir::BodyBuilder& k;
};

ir::Body cross_entropy_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Classes classes(k, graph, node);
  const Term logits = Logit(k, node, k.named("logit", k.full(0))).value,
             target = k.named("target", k.per_row(1));
  const Term zero = k.constant(0, ExprType::i32);
  const Smoothing smoothing(k, node);
  const Term lse = k.named("row_lse", k.logsumexp(k.named("class_logit", classes.only(logits, kNoLogit))));
  std::vector<ir::Affine> rows;
  for (size_t i = 0; i < graph.value(node.inputs[1]).shape.size(); ++i)
    rows.push_back(k.row(static_cast<int>(i)));
  const Term at_target =
      Logit(k, node, k.named("target_logit", k.gather(0, max(target, zero), rows, {}))).value;
  Term loss = lse - (smoothing.is_on() ? smoothing.of_target() * at_target : at_target);
  if (smoothing.is_on()) {
    const double share = 1 / static_cast<double>(classes.count);
    loss = loss - smoothing.of_all() * (k.sum(classes.only(logits, 0)) * share);
  }
  k.store_row(0, select(k.named("is_ignored", target < zero), k.constant(0), loss));
  k.store_row(1, lse);
  return k.take();
}

// Inputs: logits, targets, lse, d_loss.
ir::Body cross_entropy_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = rowwise(graph, node);
  const Classes classes(k, graph, node);
  const Term target = k.named("target", k.per_row(1));
  const Smoothing smoothing(k, node);
  const Term is_ignored = k.named("is_ignored", target < k.constant(0, ExprType::i32));
  const Term scale = k.named("d_loss", select(is_ignored, k.constant(0), k.per_row(3)));
  const Logit logit(k, node, k.named("logit", k.full(0)));
  const Term lse = k.named("row_lse", k.per_row(2));
  Term p = k.named("probability", exp(logit.value - lse));
  if (smoothing.is_on()) p = p - smoothing.of_each(classes.count);
  const Term hit = k.position(k.column(0)) == convert(target, ExprType::i64);
  const Term d_value =
      (p - select(hit, smoothing.is_on() ? smoothing.of_target() : k.constant(1), k.constant(0))) * scale;
  k.store(0, classes.only(logit.times_derivative(d_value), 0));
  return k.take();
}

void cross_entropy_gradient(Gradient& g, const ir::Node& node) {
  const Use d_rows = *g.of(node.outputs[0]);
  g.contribute_op(node.inputs[0], ir::Op::cross_entropy_backward,
                  {node.inputs[0], node.inputs[1], node.outputs[1], d_rows}, node.attributes);
}

void cross_entropy_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                             std::vector<Tensor64>& out) {
  const int64_t columns = in[0].shape.back();
  const int64_t v = node.attributes.contains("classes") ? node.integer("classes") : columns;
  const double e = node.number("label_smoothing"), cap = softcap_of(node);
  for (int64_t r = 0; r < row_count(in[0]); ++r) {
    std::vector<double> x(in[0].data.begin() + r * columns, in[0].data.begin() + (r + 1) * columns);
    if (cap > 0) {
      for (double& logit : x) logit = cap * std::tanh(logit / cap);
    }
    const auto target = static_cast<int64_t>(in[1].data[r]);
    double sum = 0, mean = 0;
    for (int64_t i = 0; i < v; ++i) sum += std::exp(x[i]);
    for (int64_t i = 0; i < v; ++i) mean += x[i] / static_cast<double>(v);
    const double lse = std::log(sum);
    out[0].data[r] = target == kIgnoredTarget ? 0 : lse - (1 - e) * x[target] - e * mean;
    out[1].data[r] = lse;
  }
}

}  // namespace

namespace {

constexpr std::string_view kSmoothLosses =
    "lse = logsumexp(logits), losses = lse - (1 - e) logits[target] - e mean(logits)";
constexpr std::string_view kSmoothGradient =
    "d_logits = (exp(logits - lse) - (1 - e) [v = target] - e / V) d_losses";

std::string losses_formula(const ir::Node& node) {
  return node.number("label_smoothing") > 0 ? std::string(kSmoothLosses)
                                            : "lse = logsumexp(logits), losses = lse - logits[target]";
}

std::string gradient_formula(const ir::Node& node) {
  return node.number("label_smoothing") > 0 ? std::string(kSmoothGradient)
                                            : "d_logits = (exp(logits - lse) - [v = target]) d_losses";
}

}  // namespace

extern const OpInfo kCrossEntropy{.op = ir::Op::cross_entropy,
                                  .formula = kSmoothLosses,
                                  .inputs = {"logits", "targets"},
                                  .outputs = {"losses", "lse"},
                                  .formula_of = losses_formula,
                                  .body = cross_entropy_body,
                                  .gradient = cross_entropy_gradient,
                                  .reference = cross_entropy_reference};
extern const OpInfo kCrossEntropyBackward{.op = ir::Op::cross_entropy_backward,
                                          .formula = kSmoothGradient,
                                          .inputs = {"logits", "targets", "lse", "d_losses"},
                                          .outputs = {"d_logits"},
                                          .formula_of = gradient_formula,
                                          .body = cross_entropy_backward_body};

}  // namespace hydrac::ops
