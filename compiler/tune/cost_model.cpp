#include "tune/cost_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "driver/prediction.h"

namespace hydrac::tune {

namespace {

using Row = std::array<double, 4>;
using Square = std::array<Row, 4>;

Row row_of(const Work& work) {
  return {work.flop, work.bytes, work.calls, work.host_bytes};
}

double dot(const Row& a, const Row& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Solves the symmetric, positive definite system by Gauss-Jordan elimination.
Row solve(Square matrix, Row right) {
  for (size_t pivot = 0; pivot < right.size(); ++pivot) {
    for (size_t i = 0; i < right.size(); ++i) {
      if (i == pivot) continue;
      const double factor = matrix[i][pivot] / matrix[pivot][pivot];
      for (size_t j = 0; j < right.size(); ++j) matrix[i][j] -= factor * matrix[pivot][j];
      right[i] -= factor * right[pivot];
    }
  }
  for (size_t i = 0; i < right.size(); ++i) right[i] /= matrix[i][i];
  return right;
}

}  // namespace

Work work_of(const driver::Compiled& compiled) {
  const driver::StepWork step = driver::step_work(compiled);
  return {step.matmul_flop, step.other_bytes, static_cast<double>(step.calls),
          static_cast<double>(compiled.plan.host_bytes)};
}

CostModel::CostModel(const targets::Target& target, spec::Precision precision) {
  const driver::Rates rates = driver::rates_of(target, precision);
  prior_ = {1 / rates.reached.flops, 1 / rates.reached.bytes_per_second, rates.seconds_a_call,
            target.is_cpu() ? 0 : 1 / rates.host_bytes_per_second};
  prices_ = prior_;
}

double CostModel::seconds(const Work& work) const {
  return dot(prices_, row_of(work));
}

void CostModel::learn(const Work& work, double seconds) {
  // The first measurement says how fast the machine is as a whole.
  if (measured_.empty()) {
    const double scale = seconds / dot(prior_, row_of(work));
    for (double& price : prior_) price *= scale;
  }
  measured_.push_back({work, seconds});
  fit();
}

// Least squares of relative errors. A price's relative distance from the first guess costs as much as a
// measurement's error kTrust times as large, because few measurements cannot tell four prices apart.
void CostModel::fit() {
  constexpr double kTrust = 0.1;
  Square matrix{};
  Row right{};
  for (const Measured& m : measured_) {
    Row row = row_of(m.work);
    for (size_t i = 0; i < prior_.size(); ++i)
      row[i] *= prior_[i] / m.seconds;  // of prices in units of the first guess
    for (size_t i = 0; i < prior_.size(); ++i) {
      for (size_t j = 0; j < prior_.size(); ++j) matrix[i][j] += row[i] * row[j];
      right[i] += row[i];
    }
  }
  for (size_t i = 0; i < prior_.size(); ++i) {
    matrix[i][i] += kTrust * kTrust;
    right[i] += kTrust * kTrust;
  }
  const Row shares = solve(matrix, right);
  for (size_t i = 0; i < prior_.size(); ++i) prices_[i] = prior_[i] * std::max(shares[i], 0.05);
}

}  // namespace hydrac::tune
