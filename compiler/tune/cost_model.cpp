#include "tune/cost_model.h"

#include <algorithm>
#include <cmath>

#include "driver/floor.h"

namespace hydrac::tune {

namespace {

using Row = std::array<double, 3>;

Row row_of(const Work& work) {
  return {work.flop, work.bytes, work.calls};
}

double dot(const Row& a, const Row& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

// Solves the symmetric, positive definite system by Gauss-Jordan elimination.
Row solve(std::array<Row, 3> matrix, Row right) {
  for (size_t pivot = 0; pivot < 3; ++pivot) {
    for (size_t i = 0; i < 3; ++i) {
      if (i == pivot) continue;
      const double factor = matrix[i][pivot] / matrix[pivot][pivot];
      for (size_t j = 0; j < 3; ++j) matrix[i][j] -= factor * matrix[pivot][j];
      right[i] -= factor * right[pivot];
    }
  }
  return {right[0] / matrix[0][0], right[1] / matrix[1][1], right[2] / matrix[2][2]};
}

}  // namespace

Work work_of(const driver::Compiled& compiled) {
  const driver::StepWork step = driver::step_work(compiled);
  return {step.matmul_flop, step.other_bytes, static_cast<double>(step.calls)};
}

// Of a machine that is not known: a core of AVX2, a channel of memory.
CostModel::CostModel(const targets::Target& target, spec::Precision precision) {
  const driver::Peaks peaks = driver::peaks_of(target, precision);
  prior_ = {1 / (peaks.flops > 0 ? 0.6 * peaks.flops : 5e10),
            1 / (peaks.bytes_per_second > 0 ? 0.7 * peaks.bytes_per_second : 1e10), 3e-6};
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

// Least squares of relative errors. A price's distance from the first guess, as a share of it, costs as much
// as a measurement's error that is kTrust times as large: few measurements cannot tell three prices apart.
void CostModel::fit() {
  constexpr double kTrust = 0.1;
  std::array<Row, 3> matrix{};
  Row right{};
  for (const Measured& m : measured_) {
    Row row = row_of(m.work);
    for (size_t i = 0; i < 3; ++i) row[i] *= prior_[i] / m.seconds;  // of prices in units of the first guess
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) matrix[i][j] += row[i] * row[j];
      right[i] += row[i];
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    matrix[i][i] += kTrust * kTrust;
    right[i] += kTrust * kTrust;
  }
  const Row shares = solve(matrix, right);
  for (size_t i = 0; i < 3; ++i) prices_[i] = prior_[i] * std::max(shares[i], 0.05);
}

}  // namespace hydrac::tune
