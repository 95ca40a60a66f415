// How far the vectors of a set lie apart: the mean over all pairs of 1 - cos(x_i, x_j), and of each vector
// the mean over its pairs. The cosines are made of all products of two vectors, which one pass over the row
// sums; the epsilon keeps the cosine with a vector of zeros 0.
#include <cmath>

#include "ops/builder.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

void pairwise_cosine_distance(RegionBuilder& b, Use x, const Distances& into) {
  constexpr double epsilon = 1e-12;
  b.emit_node(ir::Op::pairwise_cosine_distance, {x}, {into.mean, into.of_each}, {{"eps", epsilon}});
}

namespace {

using ir::Term;

// The vectors of one row [N,d], and their cosines.
class Vectors {
 public:
  Vectors(ir::BodyBuilder& k, const ir::Node& node, const ir::Shape& shape, int input)
      : count_(shape[1].size) {
    k.columns({shape[2]});
    for (int64_t i = 0; i < count_; ++i)
      x_.push_back(
          k.named("x" + std::to_string(i), k.load(input, {k.row(0), ir::Affine{i, {}}, k.column(0)})));
    const Term epsilon = k.constant(node.number("eps"), ir::ExprType::f32, "kTiny");
    for (int64_t i = 0; i < count_; ++i)
      rnorm_.push_back(k.named("rnorm" + std::to_string(i), rsqrt(k.sum(at(i) * at(i)) + epsilon)));
    for (int64_t i = 0; i < count_; ++i) {
      for (int64_t j = 0; j < i; ++j)
        cosines_.push_back(k.named("cos" + std::to_string(j) + "_" + std::to_string(i),
                                   k.sum(at(j) * at(i)) * rnorm(j) * rnorm(i)));
    }
  }

  int64_t count() const { return count_; }
  double pairs() const { return static_cast<double>(count_ * (count_ - 1)) / 2; }
  Term at(int64_t i) const { return x_[static_cast<size_t>(i)]; }
  Term rnorm(int64_t i) const { return rnorm_[static_cast<size_t>(i)]; }
  Term unit(int64_t i) const { return at(i) * rnorm(i); }
  const std::vector<Term>& cosines() const { return cosines_; }
  Term cosine(int64_t i, int64_t j) const {
    const int64_t high = std::max(i, j), low = std::min(i, j);
    return cosines_[static_cast<size_t>(high * (high - 1) / 2 + low)];
  }
  // term(j) summed over the other vectors.
  template <class OfOther>
  Term sum_over_others(int64_t i, const OfOther& term) const {
    Term sum = term(i == 0 ? 1 : 0);
    for (int64_t j = i == 0 ? 2 : 1; j < count_; ++j)
      if (j != i) sum = sum + term(j);
    return sum;
  }

 private:
  int64_t count_;
  std::vector<Term> x_, rnorm_, cosines_;
};

ir::Body distance_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.inputs[0]).shape;  // [B,N,d]
  ir::BodyBuilder k(graph, node, {shape[0]});
  const Vectors x(k, node, shape, 0);
  Term sum = x.cosines()[0];
  for (size_t pair = 1; pair < x.cosines().size(); ++pair) sum = sum + x.cosines()[pair];
  k.store_row(0, 1 - sum * (1 / x.pairs()));
  const double others = static_cast<double>(x.count() - 1);
  for (int64_t i = 0; i < x.count(); ++i) {
    const Term cosines = x.sum_over_others(i, [&](int64_t j) { return x.cosine(i, j); });
    k.store_row_at(1, {k.row(0), ir::Affine{i, {}}}, 1 - cosines * (1 / others));
  }
  return k.take();
}

// With u_i = x_i rnorm_i, d cos(i,j) / d x_i = rnorm_i (u_j - cos(i,j) u_i).
ir::Body distance_backward_body(const ir::Graph& graph, const ir::Node& node) {
  const ir::Shape& shape = graph.value(node.inputs[0]).shape;
  ir::BodyBuilder k(graph, node, {shape[0]});
  const Vectors x(k, node, shape, 0);
  const Term scale = k.named("d_cosine", -(k.per_row(1) * (1 / x.pairs())));
  for (int64_t i = 0; i < x.count(); ++i) {
    const Term of_pairs =
        x.sum_over_others(i, [&](int64_t j) { return x.unit(j) - x.cosine(i, j) * x.unit(i); });
    k.store_at(0, {k.row(0), ir::Affine{i, {}}, k.column(0)}, scale * x.rnorm(i) * of_pairs);
  }
  return k.take();
}

void distance_gradient(Gradient& g, const ir::Node& node) {
  const Use x = node.inputs[0];
  g.contribute_op(x, ir::Op::pairwise_cosine_distance_backward, {x, *g.of(node.outputs[0])}, node.attributes);
}

void distance_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const int64_t sets = in[0].shape[0], count = in[0].shape[1], d = in[0].shape[2];
  const auto product = [&](int64_t set, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c)
      sum += in[0].data[(set * count + i) * d + c] * in[0].data[(set * count + j) * d + c];
    return sum;
  };
  const double epsilon = node.number("eps"), others = static_cast<double>(count - 1);
  for (int64_t set = 0; set < sets; ++set) {
    out[0].data[set] = 0;
    for (int64_t i = 0; i < count; ++i) {
      double& mean = out[1].data[set * count + i];
      mean = 0;
      for (int64_t j = 0; j < count; ++j) {
        const double lengths = std::sqrt((product(set, i, i) + epsilon) * (product(set, j, j) + epsilon));
        if (i != j) mean += (1 - product(set, i, j) / lengths) / others;
      }
      out[0].data[set] += mean / static_cast<double>(count);
    }
  }
}

}  // namespace

extern const OpInfo kPairwiseCosineDistance{
    .op = ir::Op::pairwise_cosine_distance,
    .formula =
        "distance = 1 - the mean of cos(x_i, x_j) over all pairs; of_each[i] = that over the pairs of x_i",
    .inputs = {"x"},
    .outputs = {"distance", "of_each"},
    .body = distance_body,
    .gradient = distance_gradient,
    .reference = distance_reference};
extern const OpInfo kPairwiseCosineDistanceBackward{
    .op = ir::Op::pairwise_cosine_distance_backward,
    .formula =
        "d_x_i = -d_distance / pairs * rnorm_i * the sum over j of u_j - cos(x_i, x_j) u_i, u = x rnorm",
    .inputs = {"x", "d_distance"},
    .outputs = {"d_x"},
    .body = distance_backward_body};

}  // namespace hydrac::ops
