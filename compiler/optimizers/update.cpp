#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "optimizers/adaptive_rate.h"
#include "optimizers/found_rate.h"
#include "optimizers/optimizer.h"
#include "optimizers/rounding.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::DType;
using ir::ExprType;
using ir::Node;
using ir::Role;
using ir::Term;
using ir::Use;

namespace {

// The sum of squares over a row of gradients, unscaled, in a kernel whose inputs are these and the loss
// scale, if there is one.
Term square_of_row(BodyBuilder& k, const ir::Shape& gradients, bool scaled) {
  k.columns({gradients[1]});
  const Term g = scaled ? k.full(0) * (1 / k.scalar(1)) : k.full(0);
  return k.sum(g * g);
}

std::vector<Use> with_scale(Use gradients, const std::optional<Use>& scale) {
  return scale ? std::vector{gradients, *scale} : std::vector{gradients};
}

// `square` (+)= the squares of a group's gradients.
void add_squares(ops::RegionBuilder& b, const models::ParameterGroup& group, const std::optional<Use>& scale,
                 Use square) {
  const Node node{.inputs = with_scale({group.gradients, {}}, scale), .outputs = {square}};
  const ir::Shape shape = b.graph().value(group.gradients).shape;
  BodyBuilder k(b.graph(), node, {shape[0]});
  const bool adds = group.first_row > 0;
  k.row_sum(0, square_of_row(k, shape, scale.has_value()), adds);
  b.emit_body(node, "grad_square", k.take(),
              fmt::format("grad_square {} sum of squares of the gradients", adds ? "+=" : "="));
}

// The same where ranks share the update: each computes the squares of its rows, and adds up those of all, in
// the order in which one that has all gradients does.
void add_shared_squares(ops::RegionBuilder& b, const models::Pack& pack, const std::optional<Use>& scale,
                        Use square) {
  std::vector<Use> own, all;
  for (const models::ParameterGroup& group : pack.groups) {
    const ir::Shape shape = b.graph().value(group.own_gradients).shape;
    const std::string suffix = group.name.empty() ? "" : "." + group.name;
    own.push_back(b.exact(b.fresh("own_squares" + suffix, {shape[0]})));
    all.push_back(b.exact(b.fresh("squares" + suffix, {b.graph().value(group.gradients).shape[0]})));
    const Node node{.inputs = with_scale({group.own_gradients, {}}, scale), .outputs = {own.back()}};
    BodyBuilder k(b.graph(), node, {shape[0]});
    k.store_row(0, square_of_row(k, shape, scale.has_value()));
    b.emit_body(node, "own_squares", k.take(),
                "squares = sums of squares of the rank's rows of the gradients");
  }
  b.emit_node("all_gather", own, all, {{"ranks", pack.sharing_ranks}});
  for (size_t i = 0; i < all.size(); ++i) {
    const Node node{.inputs = {all[i]}, .outputs = {square}};
    BodyBuilder k(b.graph(), node, {{pack.groups[i].used_rows, ""}});
    k.row_sum(0, k.load(0, {k.row(0)}), i > 0);
    b.emit_body(node, "grad_square", k.take(),
                fmt::format("grad_square {} sum of the rows' squares", i > 0 ? "+=" : "="));
  }
}

// Whether a row of a group has parameters of which ranks that share layers have a part each.
Term is_split_row(BodyBuilder& k, const models::ParameterGroup& group) {
  std::optional<Term> is_split;
  const Term row = k.position(k.row(0));
  for (const ir::RowRange& range : group.split_rows) {
    const auto at = [&](int64_t i) { return k.constant(static_cast<double>(i), ExprType::i64); };
    const Term within = !(row < at(range.first)) && row < at(range.first + range.count);
    is_split = is_split ? *is_split || within : within;
  }
  return k.named("is_split", *is_split);
}

// The same where ranks share layers: squares of what they have parts of are summed over them, those of what
// all of them have count once.
void add_squares_of_parts(ops::RegionBuilder& b, const models::Pack& pack, const std::optional<Use>& scale,
                          Use square) {
  const Use own = b.exact(b.fresh("own_squares", {})), common = b.exact(b.fresh("common_squares", {})),
            sum = b.exact(b.fresh("split_squares", {}));
  for (const models::ParameterGroup& group : pack.groups) {
    const Node node{.inputs = with_scale({group.gradients, {}}, scale), .outputs = {own, common}};
    const ir::Shape shape = b.graph().value(group.gradients).shape;
    BodyBuilder k(b.graph(), node, {shape[0]});
    const Term row = k.named("row_square", square_of_row(k, shape, scale.has_value())), none = k.constant(0);
    const Term is_split = is_split_row(k, group);
    const bool adds = group.first_row > 0;
    k.row_sum(0, select(is_split, row, none), adds);
    k.row_sum(1, select(is_split, none, row), adds);
    b.emit_body(node, "own_squares", k.take(),
                "sums of squares of gradients, of parts of parameters and of whole ones");
  }
  b.emit_node("sum_over_ranks", {own}, {sum}, {{"ranks", pack.tensor_ranks}});
  const Node node{.inputs = {sum, common}, .outputs = {square}};
  BodyBuilder k(b.graph(), node, {});
  k.store_row(0, k.scalar(0) + k.scalar(1));
  b.emit_body(node, "grad_square", k.take(), "grad_square = sum of squares of the gradients");
}

// sum of squares over all gradients, unscaled
Use gradient_square(ops::RegionBuilder& b, const models::Model& model, const models::Pack& pack) {
  std::optional<Use> scale;
  if (model.interface.loss_scale != ir::kNoValue) scale = Use{model.interface.loss_scale, {}};
  b.enter("optimizer", "train.max_grad_norm");
  const Use square = b.fresh("grad_square", {}, DType::f32, Role::state);
  if (pack.sharing_ranks > 1)
    add_shared_squares(b, pack, scale, square);
  else if (pack.tensor_ranks > 1)
    add_squares_of_parts(b, pack, scale, square);
  else
    for (const models::ParameterGroup& group : pack.groups) add_squares(b, group, scale, square);
  return square;
}

// Before the optimizers: what a rank updates of parameters, where it has not got it already. Update::rank.
Use take_own_part(ops::RegionBuilder& b, const models::Pack& pack) {
  if (pack.sharing_ranks == 1) return {};
  const Use rank = b.fresh("rank", {}, DType::i32, Role::state);
  if (pack.is_divided) return rank;
  b.enter("optimizer", "parallel.zero");
  for (const models::ParameterGroup& group : pack.groups)
    b.emit_node("own_part", {{group.parameters, {}}}, {{group.own_parameters, {}}},
                {{"ranks", pack.sharing_ranks}});
  return rank;
}

// And behind them: the parameters that all ranks have updated; passes/precision does so with working copies.
// `zero_gradients`: the next micro-batch adds to gradients.
void gather_parts(ops::RegionBuilder& b, const models::Pack& pack, bool zero_gradients) {
  if (pack.sharing_ranks == 1) return;
  b.enter("optimizer", "parallel.zero");
  std::vector<Use> own, all;
  for (const models::ParameterGroup& group : pack.groups) {
    own.push_back({group.own_parameters, {}});
    all.push_back({group.parameters, {}});
  }
  if (!pack.is_divided) b.emit_node("all_gather", own, all, {{"ranks", pack.sharing_ranks}});
  if (!zero_gradients) return;
  for (const models::ParameterGroup& group : pack.groups) b.emit_node("zero", {}, {{group.gradients, {}}});
}

// PyTorch's clip_grad_norm_: factor min(1, max_norm / (norm + 1e-6)).
Term clip_factor(BodyBuilder& k, const spec::Spec& spec, Term norm) {
  if (spec.train.max_grad_norm == 0) return k.constant(1);
  return min(k.constant(1), spec.train.max_grad_norm / (norm + 1e-6));
}

struct Scalars {
  Use learning_rate, clip, grad_norm, step_loss;
  Use skipped;       // i32 []
  Use rounding_key;  // u32 []; absent where nothing is rounded stochastically
};

// Without loss scaling a step that is not finite ends the run: it and all after it change nothing, so that
// the parameters that it began with are there to find out where it went wrong.
Term diverged(BodyBuilder& k, Term before, Term square, Term loss) {
  const Term one = k.constant(1, ExprType::i32);
  return select(is_finite(square), select(is_finite(loss), before, one), one);
}

// A scalar of the host's or of the step before, in float64.
Term input(BodyBuilder& k, int number) {
  return convert(k.scalar(number), ExprType::f64);
}

Scalars prepare(ops::RegionBuilder& b, const models::Model& model, Use step, Use square,
                const std::optional<ScaledStep>& scaled, const std::optional<AdaptiveRate>& adaptive,
                const std::optional<FoundRate>& found) {
  b.enter("optimizer", "train.lr_scheduler");
  auto scalar = [&](const std::string& name) { return b.fresh(name, {}, DType::f32, Role::state); };
  Scalars s{scalar("learning_rate"),
            scalar("clip"),
            scalar("grad_norm"),
            scalar("step_loss"),
            scaled ? scaled->skipped : b.fresh("diverged", {}, DType::i32, Role::state),
            {}};
  if (rounds_stochastically(model.spec))
    s.rounding_key = b.fresh("rounding_key", {}, DType::u32, Role::state);
  const Use loss{model.interface.loss, {}};
  Node node{.inputs = {step, square, loss},
            .outputs = {s.learning_rate, s.clip, s.grad_norm, s.step_loss, loss}};
  node.inputs.push_back(scaled ? scaled->scale : s.skipped);
  if (!scaled) node.outputs.push_back(s.skipped);
  const auto key = static_cast<int>(node.outputs.size()), seed = static_cast<int>(node.inputs.size());
  if (s.rounding_key.value != ir::kNoValue) {
    node.outputs.push_back(s.rounding_key);
    node.inputs.push_back({model.interface.rng_seed, {}});
  }
  const auto cut = static_cast<int>(node.inputs.size());
  if (adaptive) node.inputs.push_back(adaptive->cut);
  const auto digits = static_cast<int>(node.inputs.size());
  if (found) node.inputs.insert(node.inputs.end(), {found->digits, found->unit, found->trial});
  BodyBuilder k(b.graph(), node, {});
  const Term norm = k.named("norm", sqrt(k.scalar(1)));
  RateInputs inputs;
  if (adaptive) inputs.cut = input(k, cut);
  if (found) {
    inputs.whole = k.named("whole", input(k, digits) / input(k, digits + 1));
    inputs.trial = k.named("trial", input(k, digits + 2));
  }
  const Term rate = scheduled_learning_rate(k, model.spec, input(k, 0), inputs);
  k.store_row(0, k.named("rate", convert(rate, ExprType::f32)));
  const Term clip = clip_factor(k, model.spec, norm);
  k.store_row(1, scaled ? clip * (1 / k.scalar(3)) : clip);
  k.store_row(2, norm);
  k.store_row(3, k.scalar(2));
  k.store_row(4, k.constant(0));  // the next step's loss starts anew
  if (!scaled) k.store_row(5, diverged(k, k.scalar(3), k.scalar(1), k.scalar(2)));
  if (s.rounding_key.value != ir::kNoValue) {
    const Term site = k.constant(static_cast<double>(kRoundingSite), ExprType::i32, "kRoundingSite");
    k.store_row(key, random_key(k.scalar(seed), convert(k.scalar(0), ExprType::u32), site));
  }
  const auto& curve = model.spec.train.lr_scheduler.name.function;
  b.emit_body(node, curve ? "prepare_update." + curve->function : "prepare_update", k.take(),
              "learning_rate of this step, and the clip factor min(1, max_norm / (norm + 1e-6)), norm = "
              "sqrt(grad_square)");
  return s;
}

void advance(ops::RegionBuilder& b, Use step) {
  b.enter("optimizer", "train.max_steps");
  Node node{.inputs = {step}, .outputs = {step}};
  BodyBuilder k(b.graph(), node, {});
  k.store_row(0, k.scalar(0) + k.constant(1, ExprType::i32));
  b.emit_body(node, "advance_step", k.take(), "step += 1");
}

// All but Muon, which has no single function.
void emit_update(spec::Optimizer optimizer, Update& update) {
  switch (optimizer) {
    case spec::Optimizer::lion:
      return lion(update);
    case spec::Optimizer::sgd:
      return sgd(update);
    case spec::Optimizer::adamw:
    case spec::Optimizer::muon:
      return adamw(update);
  }
}

std::vector<const models::ParameterGroup*> groups_of(const models::Pack& pack, spec::Optimizer optimizer) {
  std::vector<const models::ParameterGroup*> groups;
  for (const models::ParameterGroup& group : pack.groups) {
    if (group.optimizer == optimizer) groups.push_back(&group);
  }
  return groups;
}

}  // namespace

Metrics build_update(models::Model& model, const models::Pack& pack, const LossScaling& scaling) {
  ir::Region first{"update", 0, false, false, {}}, last{"apply_update", 0, false, false, {}};
  std::vector<ir::Region> between;
  ops::RegionBuilder b(model.graph, first);

  const Use step = b.fresh("step", {}, DType::i32, Role::state);
  const Use square = gradient_square(b, model, pack);
  std::optional<ScaledStep> scaled;
  if (model.interface.loss_scale != ir::kNoValue)
    scaled = adjust_loss_scale(b, {model.interface.loss_scale, {}}, square, scaling);
  const std::optional<AdaptiveRate> adaptive = adaptive_rate(b, model.spec);
  const Scalars scalars = prepare(b, model, step, square, scaled, adaptive, found_rate(b, model.spec));
  if (adaptive) follow_loss(b, model.spec, *adaptive, step, scalars.step_loss);
  const bool zero_gradients = spec::micro_batches_of_step(model.spec) > 1;
  const Use rank = take_own_part(b, pack);
  const auto update_by = [&](spec::Optimizer optimizer, ops::RegionBuilder& builder) {
    builder.enter("optimizer", "train.optimizer");
    return Update{builder,
                  model.spec,
                  pack,
                  groups_of(pack, optimizer),
                  scalars.learning_rate,
                  scalars.clip,
                  step,
                  scalars.skipped,
                  scalars.rounding_key,
                  rank,
                  scaled.has_value(),
                  zero_gradients};
  };
  std::set<spec::Optimizer> optimizers;
  for (const models::ParameterGroup& group : pack.groups) optimizers.insert(group.optimizer);
  for (const spec::Optimizer optimizer : optimizers) {
    if (optimizer == spec::Optimizer::muon) continue;
    Update update = update_by(optimizer, b);
    emit_update(optimizer, update);
  }
  gather_parts(b, pack, zero_gradients);
  if (!optimizers.contains(spec::Optimizer::muon)) {
    advance(b, step);
  } else {
    Update before = update_by(spec::Optimizer::muon, b);
    const std::vector<Orthogonalized> updates = orthogonalize(before, between, last);
    ops::RegionBuilder end(model.graph, last);
    Update behind = update_by(spec::Optimizer::muon, end);
    muon(behind, updates);
    advance(end, step);
  }
  ir::Function& function = model.graph.functions.emplace_back();
  function.name = "update";
  function.regions.push_back(std::move(first));
  for (ir::Region& region : between) function.regions.push_back(std::move(region));
  if (!last.nodes.empty()) function.regions.push_back(std::move(last));
  Metrics metrics{scalars.step_loss.value, scalars.grad_norm.value, scalars.learning_rate.value};
  if (scaled) {
    metrics.loss_scale = scaled->scale.value;
    metrics.skipped = scaled->skipped.value;
  }
  return metrics;
}

}  // namespace hydrac::optimizers
