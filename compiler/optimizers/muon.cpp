// Muon (Jordan et al., 2024; scaled as in Moonlight, arXiv 2502.16982) for the matrices of the blocks. The
// momentum is orthogonalized: replaced by a matrix whose singular values are about 1.
//   m = mu m + g;  u = g + mu m;  X = u / |u|;  five times: A = X X^T, X = a X + (b A + c A A) X
//   p = p (1 - lr wd) - lr 0.2 sqrt(max(rows, columns)) X
// The factor makes an update about as large as AdamW's, so it takes AdamW's learning rate. A matrix that is
// taller than wide has A = X^T X, and X times the bracket. AdamW trains the other parameters.
//
// If ranks share the update, each has its part of every matrix, and of its m and u. An all_to_all of u before
// the iteration gives a rank whole matrices of some layers; one of X after it gives the parts back.
#include <algorithm>
#include <cmath>

#include "optimizers/group_kernel.h"
#include "optimizers/whole_matrices.h"
#include "runtime/batch_stride.h"

namespace hydrac::optimizers {

namespace {

using ir::BodyBuilder;
using ir::DType;
using ir::Node;
using ir::Term;
using ir::Use;
using ir::ValueId;

constexpr int kIterations = 5;
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kEpsilon = 1e-7;   // added to |u|
constexpr double kLikeAdamw = 0.2;  // root mean square of AdamW's updates

// u of a group's parameters, packed as what the rank updates of them.
Use nesterov(Update& update, const models::ParameterGroup& group, const Moment& momentum) {
  const Use u = update.builder.fresh("muon.update", update.builder.graph().value(group.own_parameters).shape,
                                     update.pack.matmuls);
  GroupKernel kernel(update, group, {.parameters = false, .moments = {momentum}, .makes = u});
  const Term mu = kernel.body().constant(momentum_of(update.spec), ir::ExprType::f32, "kMomentum");
  const Term g = kernel.gradient();
  const Term m = kernel.body().named("m_new", kernel.moment(0) * mu + g);
  kernel.store_moment(0, m, "m");
  kernel.store_made(g + m * mu);
  kernel.emit("muon_momentum", "m = mu m + g, u = g + mu m, g = clip * gradients");
  return u;
}

// Newton-Schulz's iteration over a matrix of every layer at once, or of those that the rank has.
class Orthogonalizer {
 public:
  // `u`: the matrices' places in the update, [layers, rows, columns].
  Orthogonalizer(ir::Graph& graph, ValueId u)
      : graph_(graph),
        u_{u, {}},
        shape_(graph.value(u).shape),
        is_tall_(shape_[1].size > shape_[2].size),
        x_(matrices("x", shape_, kIterations + 1)) {}

  // X = u / |u|, in the region before the iteration.
  void normalize(ops::RegionBuilder& b) {
    const ir::Dim layers = shape_[0], rows = shape_[1], columns = shape_[2];
    const Use of_rows = b.exact(b.fresh("muon.row_squares", {layers, rows})),
              squares = b.exact(b.fresh("muon.squares", {layers}));
    sum(b, u_, of_rows, {layers, rows}, columns, true, "muon_row_squares", "row_squares = sums of u^2");
    sum(b, of_rows, squares, {layers}, rows, false, "muon_squares", "squares = sums of row_squares");
    const Node node{.inputs = {u_, squares}, .outputs = {{x_, {}}}};
    BodyBuilder k = pointwise(node, shape_);
    k.store(0, k.full(0) / (sqrt(k.load(1, {k.row(0)})) + kEpsilon));
    b.emit_body(node, "muon_normalize", k.take(), "X = u / (sqrt(squares) + epsilon)");
  }

  // One iteration, in a loop over them.
  void iterate(ops::RegionBuilder& b) {
    const ir::Dim layers = shape_[0], side = shape_[is_tall_ ? 2 : 1];
    const Use x{x_, {true, 0}}, next{x_, {true, 1}};
    const auto fresh = [&](const std::string& name, const ir::Shape& shape) {
      return Use{matrices(name, shape, kIterations), {true, 0}};
    };
    const Use a = fresh("a", {layers, side, side}), square = fresh("aa", {layers, side, side}),
              bracket = fresh("b", {layers, side, side}), product = fresh("bx", shape_);
    gemm(b, x, x, a, is_tall_, !is_tall_);
    gemm(b, a, a, square, false, false);
    add(b, a, kB, square, kC, bracket, "muon_polynomial", "B = b A + c A A");
    gemm(b, is_tall_ ? x : bracket, is_tall_ ? bracket : x, product, false, false);
    add(b, x, kA, product, 1, next, "muon_iterate", "X = a X + B X");
  }

  // Puts the scaled result in u's place, behind the iteration.
  void finish(ops::RegionBuilder& b) {
    const double scale =
        kLikeAdamw * std::sqrt(static_cast<double>(std::max(shape_[1].size, shape_[2].size)));
    const Node node{.inputs = {{x_, {false, kIterations}}}, .outputs = {u_}};
    BodyBuilder k = pointwise(node, shape_);
    k.store(0, k.full(0) * scale);
    b.emit_body(node, "muon_scale", k.take(), "u = 0.2 sqrt(max(rows, columns)) X");
  }

 private:
  // A value for matrices of all layers, as batched matmuls take them.
  ValueId matrices(const std::string& name, const ir::Shape& shape, int slots) {
    ir::Value value;
    value.name = "muon." + name;
    value.shape = shape;
    value.dtype = graph_.value(u_).dtype;
    value.slots = slots;
    const int64_t stride = runtime::batch_stride(shape[1].size, shape[2].size);
    if (stride == shape[1].size * shape[2].size) return graph_.add(std::move(value));
    ir::Value padded = value;
    padded.name += ".padded";
    padded.shape = {shape[0], {stride, ""}};
    value.view = ir::View{graph_.add(std::move(padded)), 0, 0, {stride, shape[2].size, 1}};
    return graph_.add(std::move(value));
  }

  BodyBuilder pointwise(const Node& node, const ir::Shape& shape) {
    BodyBuilder k(graph_, node, {shape[0], shape[1]});
    k.columns({shape[2]});
    return k;
  }

  // Over the last dimension.
  void sum(ops::RegionBuilder& b, Use from, Use to, const ir::Shape& rows, const ir::Dim& columns,
           bool squared, const std::string& name, const std::string& formula) {
    const Node node{.inputs = {from}, .outputs = {to}};
    BodyBuilder k(graph_, node, rows);
    k.columns({columns});
    const Term x = k.full(0);
    k.store_row(0, k.sum(squared ? x * x : x));
    b.emit_body(node, name, k.take(), formula);
  }

  void gemm(ops::RegionBuilder& b, Use a, Use c, Use to, bool transpose_a, bool transpose_b) {
    b.emit_node(ir::Op::gemm, {a, c}, {to},
                {{"transpose_a", transpose_a},
                 {"transpose_b", transpose_b},
                 {"accumulate", false},
                 {"batch", shape_[0].size}});
  }

  void add(ops::RegionBuilder& b, Use x, double factor_x, Use y, double factor_y, Use to,
           const std::string& name, const std::string& formula) {
    const Node node{.inputs = {x, y}, .outputs = {to}};
    BodyBuilder k = pointwise(node, graph_.value(x).shape);
    k.store(0, k.full(0) * factor_x + k.full(1) * factor_y);
    b.emit_body(node, name, k.take(), formula);
  }

  ir::Graph& graph_;
  const Use u_;
  const ir::Shape shape_;
  const bool is_tall_;
  const ValueId x_;  // with a slot for each iteration, and the start
};

}  // namespace

std::vector<Orthogonalized> orthogonalize(Update& update, std::vector<ir::Region>& loops, ir::Region& last) {
  ir::Graph& graph = update.builder.graph();
  std::vector<Orthogonalized> updates;
  std::vector<WholeMatrices> whole;
  std::vector<Orthogonalizer> matrices;
  const Moment momentum = moment(update, "muon.m");
  for (const models::ParameterGroup* group : update.groups) {
    const Use u = updates.emplace_back(group, nesterov(update, *group, momentum)).update;
    whole.emplace_back(update.builder, update.pack, *group, u);
    for (const ValueId member : group->members) {
      const std::vector<ir::RowRange> of_member = graph.value(member).parameter->matrices;
      for (const ir::RowRange& rows : of_member) matrices.emplace_back(graph, whole.back().of(member, rows));
    }
  }
  for (const WholeMatrices& of_group : whole) of_group.gather(update.builder);
  for (size_t i = 0; i < matrices.size(); ++i) {
    ir::Region before{"normalize" + std::to_string(i), 0, false, false, {}};
    ir::Region loop{"newton_schulz" + std::to_string(i), kIterations, false, false, {}};
    ops::RegionBuilder once(graph, before), iteration(graph, loop);
    once.enter("optimizer", "train.optimizer");
    iteration.enter("optimizer", "train.optimizer");
    if (i > 0) matrices[i - 1].finish(once);
    matrices[i].normalize(once);
    matrices[i].iterate(iteration);
    loops.push_back(std::move(before));
    loops.push_back(std::move(loop));
  }
  ops::RegionBuilder end(graph, last);
  end.enter("optimizer", "train.optimizer");
  matrices.back().finish(end);
  for (const WholeMatrices& of_group : whole) of_group.give_back(end);
  return updates;
}

void muon(Update& update, const std::vector<Orthogonalized>& updates) {
  for (const auto& [group, u] : updates) {
    GroupKernel kernel(update, *group, {.gradients = false, .reads = u});
    const Term rate = kernel.learning_rate();
    kernel.store_parameter(kernel.decayed(kernel.parameter()) - rate * kernel.read());
    kernel.emit("muon", "p = " + kernel.decayed_formula() + " - learning_rate * u");
  }
}

}  // namespace hydrac::optimizers
