// The loss of a pair, a scalar function of the log-probabilities of its two texts. c and r are those of the
// chosen and the rejected text less the reference's, where there is one; in ipo, simpo and orpo per token:
//   dpo       -(1 - e) log s(b (c - r)) - e log s(b (r - c))     s: sigmoid, b: beta, e: label_smoothing
//   ipo       (c - r - 1 / (2 b))^2
//   simpo     dpo's of c - r - gamma / b
//   orpo      -c - b log s(o(c) - o(r)),  o(x) = x - log(1 - exp(x)), the log odds
//   apo_zero  1 - s(b c) + s(b r)
//   apo_down  s(b c) + 1 - s(b (c - r))
// A pair without tokens is none: its loss is 0. Rewards, which are logged alone, are b times the whole text's
// ratio, or without a reference its log-probability per token.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

PreferenceRows preference_loss(RegionBuilder& b, const PairSums& sums, Use chosen_reference,
                               Use rejected_reference, const PreferenceRule& rule, const std::string& name) {
  const auto fresh = [&](const char* what) { return b.exact(b.fresh(name + what, b.shape(sums.chosen))); };
  const PreferenceRows rows{fresh(".losses"), fresh(".chosen_rewards"), fresh(".rejected_rewards"),
                            fresh(".margins"), fresh(".hits")};
  b.emit_node(ir::Op::preference_loss,
              {sums.chosen, sums.rejected, sums.chosen_tokens, sums.rejected_tokens, chosen_reference,
               rejected_reference},
              {rows.losses, rows.chosen_rewards, rows.rejected_rewards, rows.margins, rows.hits},
              {{"rule", rule.name},
               {"beta", rule.beta},
               {"gamma", rule.gamma},
               {"label_smoothing", rule.label_smoothing}});
  return rows;
}

namespace {

using ir::Term;

const std::string& rule_of(const ir::Node& node) {
  return std::get<std::string>(node.attributes.at("rule"));
}

bool is_mean(const std::string& rule) {
  return rule == "ipo" || rule == "simpo" || rule == "orpo";
}

struct LossOfPair {
  Term loss, d_chosen, d_rejected;  // by c and r
};

Term softplus(ir::BodyBuilder& k, Term x) {
  return max(x, k.constant(0)) + log1p(exp(-abs(x)));
}

class PairTerms {
 public:
  // `first`: which input the chosen texts' log-probabilities are, and the others of the node behind it.
  PairTerms(ir::BodyBuilder& k, const ir::Node& node, int first)
      : k_(k),
        rule_(rule_of(node)),
        beta_(number(node, "beta", "kBeta")),
        has_reference_(node.inputs[first + 4].value != ir::kNoValue),
        chosen_tokens_(k.named("chosen_tokens", k.per_row(first + 2))),
        rejected_tokens_(k.per_row(first + 3)),
        chosen_(ratio("chosen_ratio", first, 0)),
        rejected_(ratio("rejected_ratio", first, 1)) {}

  Term is_there() const { return k_.constant(0) < chosen_tokens_; }
  Term chosen_per_token() const { return per_token(chosen_, chosen_tokens_); }
  Term rejected_per_token() const { return per_token(rejected_, rejected_tokens_); }
  Term chosen_reward() const { return beta_ * (has_reference_ ? chosen_ : chosen_per_token()); }
  Term rejected_reward() const { return beta_ * (has_reference_ ? rejected_ : rejected_per_token()); }

  LossOfPair loss(const ir::Node& node) const {
    const Term c = k_.named("c", is_mean(rule_) ? chosen_per_token() : chosen_),
               r = k_.named("r", is_mean(rule_) ? rejected_per_token() : rejected_);
    LossOfPair of = rule_ == "ipo"        ? ipo(c, r)
                    : rule_ == "orpo"     ? orpo(c, r)
                    : rule_ == "apo_zero" ? apo_zero(c, r)
                    : rule_ == "apo_down" ? apo_down(c, r)
                                          : logistic(c, r, node);
    if (is_mean(rule_)) {
      of.d_chosen = per_token(of.d_chosen, chosen_tokens_);
      of.d_rejected = per_token(of.d_rejected, rejected_tokens_);
    }
    return of;
  }

 private:
  Term number(const ir::Node& node, const std::string& key, const char* name) const {
    return k_.constant(ir::spec_number(key, node.number(key), "objective." + key), ir::ExprType::f32, name);
  }
  Term ratio(const std::string& name, int first, int text) const {
    const Term own = k_.per_row(first + text);
    return k_.named(name, has_reference_ ? own - k_.per_row(first + 4 + text) : own);
  }
  Term per_token(Term x, Term tokens) const { return x / max(tokens, k_.constant(1)); }
  Term one() const { return k_.constant(1); }

  LossOfPair logistic(Term c, Term r, const ir::Node& node) const {
    Term z = beta_ * (c - r);
    if (rule_ == "simpo") z = z - number(node, "gamma", "kGamma");
    z = k_.named("z", z);
    if (node.number("label_smoothing") == 0) {  // in evaluations, and mostly
      const Term d = k_.named("d_z", beta_ * (sigmoid(z) - one()));
      return {softplus(k_, -z), d, -d};
    }
    const Term e = number(node, "label_smoothing", "kLabelSmoothing");
    const Term d = k_.named("d_z", beta_ * (sigmoid(z) - (one() - e)));
    return {softplus(k_, -z) + e * z, d, -d};
  }
  LossOfPair ipo(Term c, Term r) const {
    const Term off = k_.named("off", c - r - one() / (beta_ * 2));
    return {off * off, off * 2, off * -2};
  }
  LossOfPair orpo(Term c, Term r) const {
    const Term least = k_.constant(1e-20);  // of a probability that something else is said
    const Term not_c = k_.named("not_chosen", max(-expm1(c), least)),
               not_r = k_.named("not_rejected", max(-expm1(r), least));
    const Term odds = k_.named("log_odds", c - r - (log(not_c) - log(not_r)));
    const Term d = k_.named("d_odds", beta_ * (sigmoid(odds) - one()));
    return {beta_ * softplus(k_, -odds) - c, d / not_c - one(), -d / not_r};
  }
  LossOfPair apo_zero(Term c, Term r) const {
    const Term of_c = k_.named("of_chosen", sigmoid(beta_ * c)),
               of_r = k_.named("of_rejected", sigmoid(beta_ * r));
    return {one() - of_c + of_r, -derivative(of_c), derivative(of_r)};
  }
  LossOfPair apo_down(Term c, Term r) const {
    const Term of_c = k_.named("of_chosen", sigmoid(beta_ * c)),
               of_both = k_.named("of_both", sigmoid(beta_ * (c - r)));
    return {of_c + (one() - of_both), derivative(of_c) - derivative(of_both), derivative(of_both)};
  }
  // d sigmoid(beta x) / dx
  Term derivative(Term sigmoid) const { return beta_ * (sigmoid * (one() - sigmoid)); }

  ir::BodyBuilder& k_;
  const std::string rule_;
  const Term beta_;
  const bool has_reference_;
  const Term chosen_tokens_, rejected_tokens_, chosen_, rejected_;
};

ir::Body preference_loss_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.outputs[0]).shape);
  const PairTerms pair(k, node, 0);
  const Term zero = k.constant(0), is_there = k.named("is_there", pair.is_there());
  const Term chosen = k.named("chosen_reward", pair.chosen_reward()),
             rejected = k.named("rejected_reward", pair.rejected_reward());
  k.store_row(0, select(is_there, pair.loss(node).loss, zero));
  k.store_row(1, select(is_there, chosen, zero));
  k.store_row(2, select(is_there, rejected, zero));
  k.store_row(3, select(is_there, chosen - rejected, zero));
  k.store_row(4, select(is_there && rejected < chosen, k.constant(1), zero));
  return k.take();
}

// Inputs: d_losses, then those of the forward op.
ir::Body preference_loss_backward_body(const ir::Graph& graph, const ir::Node& node) {
  ir::BodyBuilder k(graph, node, graph.value(node.outputs[0]).shape);
  const PairTerms pair(k, node, 1);
  const LossOfPair of = pair.loss(node);
  const Term d_loss = k.named("d_loss", select(pair.is_there(), k.per_row(0), k.constant(0)));
  k.store_row(0, of.d_chosen * d_loss);
  k.store_row(1, of.d_rejected * d_loss);
  return k.take();
}

void preference_loss_gradient(Gradient& g, const ir::Node& node) {
  const Use chosen = node.inputs[0], rejected = node.inputs[1];
  const Use d_chosen = g.exact(g.fresh(g.name_of(chosen), g.shape(chosen))),
            d_rejected = g.exact(g.fresh(g.name_of(rejected), g.shape(rejected)));
  std::vector<Use> inputs = {*g.of(node.outputs[0])};
  inputs.insert(inputs.end(), node.inputs.begin(), node.inputs.end());
  g.emit_node(ir::Op::preference_loss_backward, std::move(inputs), {d_chosen, d_rejected}, node.attributes);
  g.contribute(chosen, d_chosen);
  g.contribute(rejected, d_rejected);
}

// log(1 + exp(x))
double log_of_one_and(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

double reference_loss(const std::string& rule, double c, double r, double beta, double gamma, double e) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto odds = [](double x) { return x - std::log(1 - std::exp(x)); };
  if (rule == "ipo") return std::pow(c - r - 1 / (2 * beta), 2);
  if (rule == "orpo") return beta * log_of_one_and(odds(r) - odds(c)) - c;
  if (rule == "apo_zero") return 1 - sigmoid(beta * c) + sigmoid(beta * r);
  if (rule == "apo_down") return sigmoid(beta * c) + 1 - sigmoid(beta * (c - r));
  const double z = beta * (c - r) - (rule == "simpo" ? gamma : 0);
  return (1 - e) * log_of_one_and(-z) + e * log_of_one_and(z);
}

void preference_loss_reference(const ir::Node& node, const std::vector<Tensor64>& in,
                               std::vector<Tensor64>& out) {
  const std::string& rule = rule_of(node);
  const double beta = node.number("beta");
  const bool has_reference = !in[4].data.empty();
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    for (Tensor64& rows : out) rows.data[i] = 0;
    if (in[2].data[i] == 0) continue;
    const double c = in[0].data[i] - (has_reference ? in[4].data[i] : 0),
                 r = in[1].data[i] - (has_reference ? in[5].data[i] : 0);
    const double mean_c = c / in[2].data[i], mean_r = r / in[3].data[i];
    out[0].data[i] = reference_loss(rule, is_mean(rule) ? mean_c : c, is_mean(rule) ? mean_r : r, beta,
                                    node.number("gamma"), node.number("label_smoothing"));
    out[1].data[i] = beta * (has_reference ? c : mean_c);
    out[2].data[i] = beta * (has_reference ? r : mean_r);
    out[3].data[i] = out[1].data[i] - out[2].data[i];
    out[4].data[i] = out[3].data[i] > 0 ? 1 : 0;
  }
}

std::string formula(const ir::Node& node) {
  const std::string& rule = rule_of(node);
  if (rule == "ipo") return "loss = (c - r - 1 / (2 beta))^2";
  if (rule == "orpo") return "loss = -c - beta log sigmoid(odds(c) - odds(r)), odds(x) = x - log(1 - exp(x))";
  if (rule == "apo_zero") return "loss = 1 - sigmoid(beta c) + sigmoid(beta r)";
  if (rule == "apo_down") return "loss = sigmoid(beta c) + 1 - sigmoid(beta (c - r))";
  const std::string logistic = node.number("label_smoothing") > 0
                                   ? "loss = -(1 - e) log sigmoid(z) - e log sigmoid(-z)"
                                   : "loss = -log sigmoid(z)";
  return logistic + ", z = beta (c - r)" + (rule == "simpo" ? " - gamma" : "");
}

std::string formula_of(const ir::Node& node) {
  const bool has_reference = node.inputs[4].value != ir::kNoValue;
  return formula(node) +
         "; c, r: " + (has_reference ? "log-probabilities less the reference's" : "log-probabilities") +
         (is_mean(rule_of(node)) ? ", per token" : "");
}

std::string gradient_formula_of(const ir::Node& node) {
  return "d_chosen = d_loss d loss / d chosen, likewise d_rejected; " + formula(node);
}

}  // namespace

extern const OpInfo kPreferenceLoss{
    .op = ir::Op::preference_loss,
    .formula = "loss of a pair's log-probabilities",
    .inputs = {"chosen", "rejected", "chosen_tokens", "rejected_tokens", "chosen_reference",
               "rejected_reference"},
    .outputs = {"losses", "chosen_rewards", "rejected_rewards", "margins", "hits"},
    .formula_of = formula_of,
    .body = preference_loss_body,
    .gradient = preference_loss_gradient,
    .reference = preference_loss_reference};
extern const OpInfo kPreferenceLossBackward{
    .op = ir::Op::preference_loss_backward,
    .formula = "d_chosen = d_loss d loss / d chosen",
    .inputs = {"d_losses", "chosen", "rejected", "chosen_tokens", "rejected_tokens", "chosen_reference",
               "rejected_reference"},
    .outputs = {"d_chosen", "d_rejected"},
    .formula_of = gradient_formula_of,
    .body = preference_loss_backward_body};

}  // namespace hydrac::ops
