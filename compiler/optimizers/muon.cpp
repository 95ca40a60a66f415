// Muon (Jordan et al., 2024; scaled as in Moonlight, arXiv 2502.16982) for the matrices of the blocks: the
// momentum is replaced by the nearest matrix whose singular values are about 1,
//   m = mu m + g;  u = g + mu m;  X = u / |u|;  five times: A = X X^T, X = a X + (b A + c A A) X
//   p = p (1 - lr wd) - lr 0.2 sqrt(max(rows, columns)) X
// so that an update is about as large as AdamW's and takes its learning rate. A matrix that is taller than
// wide has A = X^T X, and X times the bracket. The other parameters are AdamW's.
#include <cmath>
#include <map>

#include "optimizers/group_kernel.h"

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

// u of a group's parameters, packed as they are.
Use nesterov(Update& update, const models::ParameterGroup& group) {
  const Use u = update.builder.fresh("muon.update", update.builder.graph().value(group.parameters).shape,
                                     update.pack.matmuls);
  GroupKernel kernel(update, group, {.parameters = false, .moments = {moment(update, "muon.m")}, .makes = u});
  const double mu = update.spec.train.optimizer.momentum;
  const Term g = kernel.gradient();
  const Term m = kernel.body().named("m_new", kernel.moment(0) * mu + g);
  kernel.store_moment(0, m, "m");
  kernel.store_made(g + m * mu);
  kernel.emit("muon_momentum", "m = mu m + g, u = g + mu m, g = clip * gradients");
  return u;
}

// Newton-Schulz's iteration over one matrix of each layer, in a loop over the layers.
class Orthogonalizer {
 public:
  // `u`: the matrix's place in the packed update, [rows, columns] with a slot a layer.
  Orthogonalizer(ops::RegionBuilder& b, ValueId u)
      : b_(b), u_{u, {true, 0}}, shape_(b.shape(u_)), is_tall_(shape_[0].size > shape_[1].size) {}

  // Puts the scaled result in u's place.
  void run() {
    Use x = normalized();
    for (int i = 0; i < kIterations; ++i) x = iterate(x, i + 1 == kIterations);
  }

 private:
  Use fresh(const std::string& name, ir::Shape shape) {
    return b_.fresh("muon." + name, std::move(shape), b_.value(u_).dtype);
  }

  BodyBuilder pointwise(const Node& node, const ir::Shape& shape) {
    BodyBuilder k(b_.graph(), node, {shape[0]});
    k.columns({shape[1]});
    return k;
  }

  Use normalized() {
    const Use square = b_.exact(b_.fresh("muon.square", {}));
    const Node sum{.inputs = {u_}, .outputs = {square}};
    BodyBuilder s = pointwise(sum, shape_);
    s.row_sum(0, s.sum(s.full(0) * s.full(0)), false);
    b_.emit_body(sum, "muon_square", s.take(), "square = sum of u^2");
    const Use x = fresh("x", shape_);
    const Node node{.inputs = {u_, square}, .outputs = {x}};
    BodyBuilder k = pointwise(node, shape_);
    k.store(0, k.full(0) / (sqrt(k.scalar(1)) + kEpsilon));
    b_.emit_body(node, "muon_normalize", k.take(), "X = u / (sqrt(square) + epsilon)");
    return x;
  }

  Use gemm(const std::string& name, Use a, Use b, ir::Shape shape, bool transpose_a, bool transpose_b) {
    const Use c = fresh(name, std::move(shape));
    b_.emit_node("gemm", {a, b}, {c},
                 {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}, {"accumulate", false}});
    return c;
  }

  // factor_x x + factor_y y
  Use sum(const std::string& name, Use x, double factor_x, Use y, double factor_y, Use into, double scale,
          const std::string& formula) {
    const Node node{.inputs = {x, y}, .outputs = {into}};
    BodyBuilder k = pointwise(node, b_.shape(x));
    k.store(0, (k.full(0) * factor_x + k.full(1) * factor_y) * scale);
    b_.emit_body(node, name, k.take(), formula);
    return into;
  }

  Use iterate(Use x, bool is_last) {
    const ir::Dim side = shape_[is_tall_ ? 1 : 0];
    const Use a = gemm("a", x, x, {side, {side.size, side.symbol}}, is_tall_, !is_tall_);
    const Use square = gemm("aa", a, a, b_.shape(a), false, false);
    const Use bracket =
        sum("muon_polynomial", a, kB, square, kC, fresh("b", b_.shape(a)), 1, "B = b A + c A A");
    const Use product = is_tall_ ? gemm("bx", x, bracket, shape_, false, false)
                                 : gemm("bx", bracket, x, shape_, false, false);
    if (!is_last) return sum("muon_iterate", x, kA, product, 1, fresh("x", shape_), 1, "X = a X + B X");
    const double scale = kLikeAdamw * std::sqrt(std::max<double>(shape_[0].size, shape_[1].size));
    return sum("muon_scale", x, kA, product, 1, u_, scale, "u = 0.2 sqrt(max(rows, columns)) (a X + B X)");
  }

  ops::RegionBuilder& b_;
  const Use u_;
  const ir::Shape shape_;
  const bool is_tall_;
};

// Where a matrix of the parameter lies in the group's packed update.
ValueId part_of(ir::Graph& graph, const models::ParameterGroup& group, const ir::Value& parameter,
                const ir::RowRange& rows, Use u) {
  ir::Value part = graph.value(u);
  const int64_t columns = parameter.shape[1].size;
  part.name = "muon." + parameter.name;
  part.shape = parameter.shape;
  if (rows.count != parameter.shape[0].size) {
    part.name += "." + std::to_string(rows.first);
    part.shape[0] = {rows.count, ""};
  }
  part.slots = parameter.slots;
  part.view =
      ir::View{u.value, parameter.view->offset - group.first_row * models::kPackRow + rows.first * columns,
               parameter.view->slot_stride, contiguous_strides(part.shape)};
  return graph.add(std::move(part));
}

}  // namespace

std::vector<Orthogonalized> orthogonalize(Update& update, std::vector<ir::Region>& loops) {
  ir::Graph& graph = update.builder.graph();
  std::vector<Orthogonalized> updates;
  for (const models::ParameterGroup* group : update.groups) {
    const Use u = updates.emplace_back(group, nesterov(update, *group)).update;
    std::map<int, std::vector<ValueId>> matrices;  // by the number of their layers
    for (const ValueId member : group->members) {
      const ir::Value parameter = graph.value(member);
      for (const ir::RowRange& rows : parameter.parameter->matrices)
        matrices[parameter.slots].push_back(part_of(graph, *group, parameter, rows, u));
    }
    for (const auto& [layers, parts] : matrices) {
      ir::Region& region = loops.emplace_back();
      region.name = matrices.size() == 1 ? "orthogonalize" : "orthogonalize_" + std::to_string(layers);
      region.layers = layers;
      ops::RegionBuilder loop(graph, region);
      loop.enter("optimizer", "train.optimizer");
      for (const ValueId part : parts) Orthogonalizer(loop, part).run();
    }
  }
  return updates;
}

void muon(Update& update, const std::vector<Orthogonalized>& updates) {
  const double decay = update.spec.train.optimizer.weight_decay;
  for (const auto& [group, u] : updates) {
    GroupKernel kernel(update, *group, {.gradients = false, .reads = u});
    const Term rate = kernel.learning_rate();
    kernel.store_parameter(kernel.parameter() * (1 - rate * kernel.row_decay(decay)) - rate * kernel.read());
    kernel.emit("muon", "p = p (1 - learning_rate * weight_decay) - learning_rate * u");
  }
}

}  // namespace hydrac::optimizers
