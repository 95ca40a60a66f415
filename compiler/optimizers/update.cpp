#include <fmt/format.h>

#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "models/sharing.h"
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

Term number(BodyBuilder& k, int64_t n, const char* name = "") {
  return k.constant(static_cast<double>(n), ExprType::i64, name);
}

// Whether a row of a group has parameters of which ranks that share layers have a part each.
Term is_split_row(BodyBuilder& k, const models::ParameterGroup& group) {
  std::optional<Term> is_split;
  const Term row = k.position(k.row(0));
  for (const ir::RowRange& range : group.split_rows) {
    const Term within = !(row < number(k, range.first)) && row < number(k, range.first + range.count);
    is_split = is_split ? *is_split || within : within;
  }
  return k.named("is_split", *is_split);
}

// The sum of all gradients' squares where ranks share layers: those of what they have parts of are summed
// over them, those of what all of them have count once.
class SquaresOfParts {
 public:
  explicit SquaresOfParts(ops::RegionBuilder& b)
      : b_(b), own_(b.exact(b.fresh("parts_square", {}))), common_(b.exact(b.fresh("common_square", {}))) {}

  // `square(k)`: that of a row of the group, in a kernel with these inputs.
  void add(const models::ParameterGroup& group, const std::vector<Use>& inputs, const ir::Dim& rows,
           const std::function<Term(BodyBuilder&)>& square) {
    const Node node{.inputs = inputs, .outputs = {own_, common_}};
    BodyBuilder k(b_.graph(), node, {rows});
    const Term row = k.named("row_square", square(k)), none = k.constant(0);
    const Term is_split = is_split_row(k, group);
    const bool adds = group.first_row > 0;
    k.row_sum(0, select(is_split, row, none), adds);
    k.row_sum(1, select(is_split, none, row), adds);
    b_.emit_body(node, "own_squares", k.take(),
                 "sums of squares of gradients, of parts of parameters and of whole ones");
  }

  void add_up(int64_t ranks, Use square) {
    const Use sum = b_.exact(b_.fresh("split_squares", {}));
    b_.emit_node(ir::Op::sum_over_ranks, {own_}, {sum}, {{"ranks", ranks}});
    const Node node{.inputs = {sum, common_}, .outputs = {square}};
    BodyBuilder k(b_.graph(), node, {});
    k.store_row(0, k.scalar(0) + k.scalar(1));
    b_.emit_body(node, "grad_square", k.take(), "grad_square = sum of squares of the gradients");
  }

 private:
  ops::RegionBuilder& b_;
  const Use own_, common_;
};

void add_squares_of_parts(ops::RegionBuilder& b, const models::Pack& pack, const std::optional<Use>& scale,
                          Use square) {
  SquaresOfParts sums(b);
  for (const models::ParameterGroup& group : pack.groups) {
    const ir::Shape shape = b.graph().value(group.gradients).shape;
    sums.add(group, with_scale({group.gradients, {}}, scale), shape[0],
             [&](BodyBuilder& k) { return square_of_row(k, shape, scale.has_value()); });
  }
  sums.add_up(pack.tensor_ranks, square);
}

// A stretch's squares in the rows where one process has them: those of the rank's rows, and zeros.
void spread_squares(ops::RegionBuilder& b, const models::Stretch& stretch, Use own, Use rank, Use squares) {
  const Node node{.inputs = {own, rank}, .outputs = {{places_of(b.graph(), stretch, squares.value), {}}}};
  BodyBuilder k(b.graph(), node, {{stretch.slots, ""}, {stretch.rows, ""}});
  const Term first = convert(k.scalar(1), ExprType::i64) * number(k, stretch.own, "kOwnRows");
  const Term row = k.named("own_row", k.position(k.row(1)) - first);
  const Term is_own = k.named("is_own", !(row < number(k, 0)) && row < number(k, stretch.own, "kOwnRows"));
  ir::Affine slot = k.row(0) * stretch.own;
  slot.constant += stretch.first_own_row;
  const Term at = k.named("at", convert(select(is_own, row, number(k, 0)) + k.position(slot), ExprType::i32));
  k.store_row(0, select(is_own, k.gather(0, at, {}, {}), k.constant(0)));
  b.emit_body(node, "spread_squares", k.take(), "the rank's rows of squares, and zeros for the others'");
}

// The same where ranks share the update: each computes the squares of its rows, and adds up those of all, in
// the order in which one that has all gradients does.
void add_shared_squares(ops::RegionBuilder& b, const models::Pack& pack, const std::optional<Use>& scale,
                        Use rank, Use square) {
  std::vector<Use> all;
  for (const models::ParameterGroup& group : pack.groups) {
    const ir::Shape shape = b.graph().value(group.own_gradients).shape;
    const std::string suffix = group.name.empty() ? "" : "." + group.name;
    const Use own = b.exact(b.fresh("own_squares" + suffix, {shape[0]}));
    all.push_back(b.exact(b.fresh("squares" + suffix, {{group.used_rows, ""}})));
    const Node node{.inputs = with_scale({group.own_gradients, {}}, scale), .outputs = {own}};
    BodyBuilder k(b.graph(), node, {shape[0]});
    k.store_row(0, square_of_row(k, shape, scale.has_value()));
    b.emit_body(node, "own_squares", k.take(),
                "squares = sums of squares of the rank's rows of the gradients");
    for (const models::Stretch& stretch : group.stretches) spread_squares(b, stretch, own, rank, all.back());
  }
  b.emit_node(ir::Op::all_reduce, all, all, {{"ranks", pack.sharing_ranks}});
  if (pack.tensor_ranks > 1) {
    SquaresOfParts sums(b);
    for (size_t i = 0; i < all.size(); ++i)
      sums.add(pack.groups[i], {all[i]}, {pack.groups[i].used_rows, ""},
               [&](BodyBuilder& k) { return k.load(0, {k.row(0)}); });
    return sums.add_up(pack.tensor_ranks, square);
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Node node{.inputs = {all[i]}, .outputs = {square}};
    BodyBuilder k(b.graph(), node, {{pack.groups[i].used_rows, ""}});
    k.row_sum(0, k.load(0, {k.row(0)}), i > 0);
    b.emit_body(node, "grad_square", k.take(),
                fmt::format("grad_square {} sum of the rows' squares", i > 0 ? "+=" : "="));
  }
}

// sum of squares over all gradients, unscaled
Use gradient_square(ops::RegionBuilder& b, const models::Model& model, const models::Pack& pack, Use rank) {
  std::optional<Use> scale;
  if (model.interface.loss_scale != ir::kNoValue) scale = Use{model.interface.loss_scale, {}};
  b.enter("optimizer", "train.max_grad_norm");
  const Use square = b.fresh("grad_square", {}, DType::f32, Role::state);
  if (pack.sharing_ranks > 1)
    add_shared_squares(b, pack, scale, rank, square);
  else if (pack.tensor_ranks > 1)
    add_squares_of_parts(b, pack, scale, square);
  else
    for (const models::ParameterGroup& group : pack.groups) add_squares(b, group, scale, square);
  return square;
}

// Before the update: what a rank updates of parameters, where it has not got it already.
std::vector<ir::Region> take_own_parts(ir::Graph& graph, const models::Pack& pack) {
  if (pack.sharing_ranks == 1 || pack.is_divided) return {};
  return regions_of_stretches(
      pack, "own_part", ir::Op::own_part, "parallel.zero",
      [&](const models::ParameterGroup& group, const models::Stretch& stretch) {
        return models::Moved{stretch.parameters, own_rows_of(graph, stretch, group.own_parameters)};
      });
}

// And behind it: the parameters that all ranks have updated; passes/precision does so with working copies.
std::vector<ir::Region> gather_parts(ir::Graph& graph, const models::Pack& pack) {
  if (pack.sharing_ranks == 1 || pack.is_divided) return {};
  return regions_of_stretches(
      pack, "gather", ir::Op::all_gather, "parallel.zero",
      [&](const models::ParameterGroup& group, const models::Stretch& stretch) {
        return models::Moved{own_rows_of(graph, stretch, group.own_parameters), stretch.parameters};
      });
}

// The next step's micro-batches add to gradients that are not the rank's own alone.
void zero_shared_gradients(ops::RegionBuilder& b, const models::Pack& pack) {
  if (pack.sharing_ranks == 1 || pack.shards_gradients) return;
  b.enter("optimizer", "parallel.zero");
  for (const models::ParameterGroup& group : pack.groups)
    b.emit_node(ir::Op::zero, {}, {{group.gradients, {}}});
}

// The place of each row that the rank has, in the group as one process has it: i32 [own rows].
Use own_places(ops::RegionBuilder& b, const models::ParameterGroup& group, Use rank) {
  b.enter("optimizer", "parallel.zero");
  const Use places = b.exact(b.fresh("own_places" + (group.name.empty() ? "" : "." + group.name),
                                     {b.graph().value(group.own_parameters).shape[0]}, DType::i32));
  for (const models::Stretch& stretch : group.stretches) {
    const Node node{.inputs = {rank}, .outputs = {{own_places_of(b.graph(), stretch, places.value), {}}}};
    BodyBuilder k(b.graph(), node, {{stretch.slots, ""}, {stretch.own, ""}});
    ir::Affine place = k.row(0) * stretch.rows + k.row(1);
    place.constant += stretch.place;
    const Term first = convert(k.scalar(0), ExprType::i64) * number(k, stretch.own, "kOwnRows");
    k.store_row(0, convert(k.position(place) + first, ExprType::i32));
    b.emit_body(node, "own_places", k.take(), "where the rank's rows are in the group's");
  }
  return places;
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

// What the layers have together, f32 []; the next step's start anew.
ir::ValueId take_sums(ops::RegionBuilder& b, const models::LayerSums& sums, const std::string& name) {
  if (sums.all == ir::kNoValue) return ir::kNoValue;
  b.enter("optimizer", "train.loss");
  const Use all{sums.all, {}}, total = b.fresh(name, {}, DType::f32, Role::state);
  const Node node{.inputs = {all}, .outputs = {total, all}};
  BodyBuilder k(b.graph(), node, {});
  k.columns(b.graph().value(sums.all).shape);
  k.store_row(0, k.sum(k.full(0)));
  k.store(1, k.constant(0));
  b.emit_body(node, "sum_of_layers", k.take(),
              fmt::format("{} = sum of all layers', which start anew", name));
  return total.value;
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

  const Use step = model.interface.step != ir::kNoValue ? Use{model.interface.step, {}}
                                                        : b.fresh("step", {}, DType::i32, Role::state);
  Use rank;
  if (pack.sharing_ranks > 1) rank = b.fresh("rank", {}, DType::i32, Role::state);
  const Use square = gradient_square(b, model, pack, rank);
  std::optional<ScaledStep> scaled;
  if (model.interface.loss_scale != ir::kNoValue)
    scaled = adjust_loss_scale(b, {model.interface.loss_scale, {}}, square, scaling);
  const std::optional<AdaptiveRate> adaptive = adaptive_rate(b, model.spec);
  const Scalars scalars = prepare(b, model, step, square, scaled, adaptive, found_rate(b, model.spec));
  const ir::ValueId aux_loss = take_sums(b, model.interface.aux_losses, "aux_loss"),
                    predictor_accuracy = take_sums(b, model.interface.predictor_hits, "predictor_accuracy"),
                    mean_depth = take_sums(b, model.interface.depths, "mean_depth");
  if (adaptive) follow_loss(b, model.spec, *adaptive, step, scalars.step_loss);
  const bool zero_gradients = spec::micro_batches_of_step(model.spec) > 1;
  std::vector<Use> places;
  if (pack.sharing_ranks > 1 && rounds_stochastically(model.spec))
    for (const models::ParameterGroup& group : pack.groups) places.push_back(own_places(b, group, rank));
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
                  places,
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
  if (zero_gradients) zero_shared_gradients(b, pack);
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
  function.regions = take_own_parts(model.graph, pack);
  function.regions.push_back(std::move(first));
  for (ir::Region& region : between) function.regions.push_back(std::move(region));
  if (!last.nodes.empty()) function.regions.push_back(std::move(last));
  for (ir::Region& region : gather_parts(model.graph, pack)) function.regions.push_back(std::move(region));
  Metrics metrics{scalars.step_loss.value,     scalars.grad_norm.value,
                  scalars.learning_rate.value, aux_loss,
                  predictor_accuracy,          mean_depth};
  if (scaled) {
    metrics.loss_scale = scaled->scale.value;
    metrics.skipped = scaled->skipped.value;
  }
  return metrics;
}

}  // namespace hydrac::optimizers
