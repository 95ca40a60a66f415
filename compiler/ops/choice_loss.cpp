// Loss of a predictor that learns a router's choice: the binary cross-entropy of sigmoid(logit) against
// whether the token was chosen, a row a token, loss = log(1 + exp(logit)) - [chosen] logit; and whether the
// predictor would choose it (logit > 0).
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use choice_loss(RegionBuilder& b, Use logits, Use places, const std::string& name) {
  return b.exact(b.emit(ir::Op::choice_loss, {logits, places}, name, b.shape(logits)));
}

Use choice_hits(RegionBuilder& b, Use logits, Use places, const std::string& name) {
  return b.exact(b.emit(ir::Op::choice_hits, {logits, places}, name, b.shape(logits)));
}

namespace {

using ir::Term;

ir::BodyBuilder over_tokens(const ir::Graph& graph, const ir::Node& node) {
  return {graph, node, graph.value(node.outputs[0]).shape};
}

Term is_chosen(ir::BodyBuilder& k, int places) {
  return k.named("is_chosen", k.constant(0, ir::ExprType::i32) <= k.per_row(places));
}

ir::Body choice_loss_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = over_tokens(graph, node);
  const Term logit = k.named("logit", k.per_row(0)), zero = k.constant(0);
  const Term softplus = k.named("softplus", max(logit, zero) + log1p(exp(-abs(logit))));
  k.store_row(0, softplus - select(is_chosen(k, 1), logit, zero));
  return k.take();
}

// Inputs: d_loss, logits, places.
ir::Body choice_loss_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = over_tokens(graph, node);
  const Term target = select(is_chosen(k, 2), k.constant(1), k.constant(0));
  k.store_row(0, (sigmoid(k.per_row(1)) - target) * k.per_row(0));
  return k.take();
}

ir::Body choice_hits_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k = over_tokens(graph, node);
  const Term one = k.constant(1), zero = k.constant(0);
  const Term says_so = k.named("says_so", zero < k.per_row(0)), chosen = is_chosen(k, 1);
  k.store_row(0, select((says_so && chosen) || !(says_so || chosen), one, zero));
  return k.take();
}

void choice_loss_gradient(Gradient& g, const ir::Node& node) {
  g.contribute_op(node.inputs[0], ir::Op::choice_loss_backward,
                  {*g.of(node.outputs[0]), node.inputs[0], node.inputs[1]});
}

void choice_loss_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    const double logit = in[0].data[i];
    out[0].data[i] = std::log1p(std::exp(in[1].data[i] >= 0 ? -logit : logit));
  }
}

void choice_hits_reference(const ir::Node&, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  for (size_t i = 0; i < in[0].data.size(); ++i)
    out[0].data[i] = (in[0].data[i] > 0) == (in[1].data[i] >= 0) ? 1 : 0;
}

}  // namespace

extern const OpInfo kChoiceLoss{.op = ir::Op::choice_loss,
                                .formula = "loss = log(1 + exp(logit)) - logit [place >= 0]",
                                .inputs = {"logits", "places"},
                                .outputs = {"losses"},
                                .body = choice_loss_body,
                                .gradient = choice_loss_gradient,
                                .reference = choice_loss_reference};
extern const OpInfo kChoiceLossBackward{.op = ir::Op::choice_loss_backward,
                                        .formula = "d_logit = (sigmoid(logit) - [place >= 0]) d_loss",
                                        .inputs = {"d_losses", "logits", "places"},
                                        .outputs = {"d_logits"},
                                        .body = choice_loss_backward_body};
extern const OpInfo kChoiceHits{.op = ir::Op::choice_hits,
                                .formula = "hit = 1 where [logit > 0] is [place >= 0], else 0",
                                .inputs = {"logits", "places"},
                                .outputs = {"hits"},
                                .body = choice_hits_body,
                                .reference = choice_hits_reference};

}  // namespace hydrac::ops
