#include "optimizers/gradient_square.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <vector>

#include "ir/body_builder.h"
#include "models/sharing.h"

namespace hydrac::optimizers {

using ir::BodyBuilder;
using ir::DType;
using ir::ExprType;
using ir::Node;
using ir::Role;
using ir::Term;
using ir::Use;

namespace {

// The sum of squares over a row of unscaled gradients, in a kernel whose inputs are the gradients and the
// loss scale, if there is one.
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

// True if a row of a group has parameters that ranks sharing layers have in parts.
Term is_split_row(BodyBuilder& k, const models::ParameterGroup& group) {
  std::optional<Term> is_split;
  const Term row = k.position(k.row(0));
  for (const ir::RowRange& range : group.split_rows) {
    const Term within = !(row < number(k, range.first)) && row < number(k, range.first + range.count);
    is_split = is_split ? *is_split || within : within;
  }
  return k.named("is_split", *is_split);
}

// The sum of all gradients' squares if ranks share layers: squares of sharded gradients are summed over the
// ranks, and those of gradients that all ranks have count once.
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

// The sum of squares if ranks share the update. Each rank computes the squares of its own rows; then all
// ranks' squares are added up in the order of a process that has all gradients.
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

}  // namespace

Use gradient_square(ops::RegionBuilder& b, const models::Model& model, const models::Pack& pack, Use rank) {
  std::optional<Use> scale;
  if (model.graph.state.loss_scale != ir::kNoValue) scale = Use{model.graph.state.loss_scale, {}};
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

}  // namespace hydrac::optimizers
