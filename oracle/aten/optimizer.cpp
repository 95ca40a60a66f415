#include "oracle/aten/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/zeros_like.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "oracle/job/quantize.h"
#include "oracle/job/random.h"

#define HYDRAC_HAS_FUSED_ADAMW \
  (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4))
#if HYDRAC_HAS_FUSED_ADAMW
#include <ATen/ops/_fused_adamw.h>
#endif

namespace hydrac::oracle {

double gradient_norm(const std::vector<Parameter>& parameters) {
  double squares = 0;
  for (const Parameter& parameter : parameters) {
    if (!parameter.gradient().defined()) continue;
    const double norm = at::linalg_vector_norm(parameter.gradient(), 2).item<double>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

void clip_gradients(const std::vector<Parameter>& parameters, double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  if (max_norm == 0 || factor >= 1) return;
  for (const Parameter& parameter : parameters)
    if (parameter.gradient().defined()) parameter.gradient().mul_(factor);
}

namespace {

std::string name_of_value(const Parameter& parameter) {
  return parameter.name.substr(0, parameter.name.rfind('.'));
}

}  // namespace

Optimizer::Optimizer(const Job& job, const std::vector<Parameter>& parameters, bool prefer_fused,
                     std::optional<at::ScalarType> matmuls)
    : job_(job),
      spec_(job.optimizer),
      parameters_(parameters),
      prefer_fused_(prefer_fused),
      matmuls_(matmuls) {
  const bool has_adamw = spec_.name == "adamw" || spec_.name == "muon";
  std::int64_t largest = 0;
  for (const Parameter& parameter : parameters) {
    const at::Tensor tensor = parameter.tensor.detach();
    first_.push_back(at::zeros_like(tensor));
    if (has_adamw) second_.push_back(at::zeros_like(tensor));
    if (has_adamw) step_counts_.push_back(at::full({}, 0, tensor.options().dtype(at::kFloat)));
    largest = std::max(largest, tensor.numel());
  }
  if (!parameters.empty()) scratch_ = at::empty({largest}, parameters[0].tensor.detach().options());
}

void Optimizer::step(double learning_rate) {
  const at::NoGradGuard no_grad;
  ++steps_;
  update(learning_rate);
  if (job_.rounding) round();
  if (job_.quantized_state) quantize();
}

void Optimizer::update(double learning_rate) {
  if (prefer_fused_ && spec_.name == "adamw" && fused_adamw(learning_rate)) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor known = parameters_[i].gradient();
    const at::Tensor gradient = known.defined() ? known : at::zeros_like(parameters_[i].tensor);
    const auto matrices = spec_.matrices.find(name_of_value(parameters_[i]));
    if (matrices != spec_.matrices.end()) {
      muon(i, matrices->second, gradient, learning_rate);
      continue;
    }
    if (spec_.name == "adamw" || spec_.name == "muon") adamw(i, gradient, learning_rate);
    if (spec_.name == "lion") lion(i, gradient, learning_rate);
    if (spec_.name == "sgd") sgd(i, gradient, learning_rate);
  }
}

namespace {

// The noise of element i is that of number `first` + i.
void round_elements(const at::Tensor& tensor, std::uint32_t key, std::int64_t first) {
  const at::Tensor numbers = tensor.to(at::kCPU, at::kDouble).contiguous();
  double* elements = numbers.data_ptr<double>();
  for (std::int64_t i = 0; i < numbers.numel(); ++i)
    elements[i] =
        round_stochastically(elements[i], random_16_bits(key, static_cast<std::uint64_t>(first + i)));
  tensor.copy_(numbers);
}

void quantize_blocks(const at::Tensor& tensor, std::int64_t block, bool is_signed) {
  const at::Tensor numbers = tensor.to(at::kCPU, at::kDouble).contiguous();
  double* elements = numbers.data_ptr<double>();
  for (std::int64_t first = 0; first < numbers.numel(); first += block)
    quantize_block(elements + first, std::min(block, numbers.numel() - first), is_signed);
  tensor.copy_(numbers);
}

}  // namespace

void Optimizer::round() {
  const RoundingSpec& rounding = *job_.rounding;
  const std::uint32_t key = random_key(job_.seed, static_cast<std::uint32_t>(steps_ - 1), rounding.site);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    const RoundingSpec::Place& place = rounding.places.at(name_of_value(parameter));
    const std::int64_t first = place.first + parameter.slot * place.stride;
    if (rounding.weights) round_elements(parameter.tensor, key + place.stream, first);
    if (!rounding.moments) continue;
    round_elements(first_[i], key + place.stream + 1, first);
    if (!second_.empty()) round_elements(second_[i], key + place.stream + 2, first);
  }
}

void Optimizer::quantize() {
  const QuantizedState& state = *job_.quantized_state;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!state.parameters.count(name_of_value(parameters_[i]))) continue;
    quantize_blocks(first_[i], state.block, /*is_signed=*/true);
    if (!second_.empty()) quantize_blocks(second_[i], state.block, /*is_signed=*/false);
  }
}

at::Tensor Optimizer::scratch_like(const at::Tensor& tensor) const {
  return scratch_.narrow(0, 0, tensor.numel()).view(tensor.sizes());
}

// p *= 1 - lr * wd; m and v are the averages; p -= lr * (m / c1) / (sqrt(v / c2) + eps), c = 1 - beta^steps.
void Optimizer::adamw(std::size_t i, const at::Tensor& gradient, double learning_rate) {
  const at::Tensor& p = parameters_[i].tensor;
  const double correction1 = 1 - std::pow(spec_.beta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(spec_.beta2, static_cast<double>(steps_));
  if (parameters_[i].decays) p.mul_(1 - learning_rate * spec_.weight_decay);
  first_[i].mul_(spec_.beta1).add_(gradient, 1 - spec_.beta1);
  second_[i].mul_(spec_.beta2).addcmul_(gradient, gradient, 1 - spec_.beta2);
  at::Tensor root = scratch_like(p);
  at::sqrt_out(root, second_[i]).mul_(1 / std::sqrt(correction2)).add_(spec_.eps);
  p.addcdiv_(first_[i], root, -learning_rate / correction1);
}

// u = sign(b1 * m + (1 - b1) * g); p -= lr * (u + wd * p); m = b2 * m + (1 - b2) * g.
void Optimizer::lion(std::size_t i, const at::Tensor& gradient, double learning_rate) {
  const at::Tensor& p = parameters_[i].tensor;
  at::Tensor direction = scratch_like(p);
  at::mul_out(direction, first_[i], at::full({}, spec_.beta1, first_[i].scalar_type()));
  direction.add_(gradient, 1 - spec_.beta1).sign_();
  if (parameters_[i].decays) p.mul_(1 - learning_rate * spec_.weight_decay);
  p.add_(direction, -learning_rate);
  first_[i].mul_(spec_.beta2).add_(gradient, 1 - spec_.beta2);
}

at::Tensor Optimizer::rounded(const at::Tensor& tensor) const {
  return matmuls_ ? tensor.to(*matmuls_).to(tensor.scalar_type()) : tensor;
}

// Five steps of X = a X + (b A + c A A) X, A = X X^T, from X = u / |u|, on the side that makes A small.
at::Tensor Optimizer::orthogonalized(const at::Tensor& matrix) const {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, eps = 1e-7;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = is_tall ? matrix.t() : matrix;
  x = rounded(x / (at::linalg_vector_norm(x, 2) + eps));
  for (int step = 0; step < 5; ++step) {
    const at::Tensor gram = rounded(at::mm(x, x.t()));
    const at::Tensor bracket = rounded(gram * b + rounded(at::mm(gram, gram)) * c);
    x = rounded(x * a + rounded(at::mm(bracket, x)));
  }
  return is_tall ? x.t() : x;
}

// m = mu * m + g; u = g + mu * m; p = p (1 - lr * wd) - lr * 0.2 * sqrt(max(rows, columns)) *
// orthogonalized(u).
void Optimizer::muon(std::size_t i, const std::vector<OptimizerSpec::Rows>& matrices,
                     const at::Tensor& gradient, double learning_rate) {
  const at::Tensor& p = parameters_[i].tensor;
  first_[i].mul_(spec_.momentum).add_(gradient);
  const at::Tensor update = rounded(gradient + first_[i] * spec_.momentum);
  if (parameters_[i].decays) p.mul_(1 - learning_rate * spec_.weight_decay);
  for (const OptimizerSpec::Rows& rows : matrices) {
    const at::Tensor matrix = orthogonalized(update.narrow(0, rows.first, rows.count));
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(matrix.size(0), matrix.size(1))));
    p.narrow(0, rows.first, rows.count).sub_(rounded(matrix * scale), learning_rate);
  }
}

// m = momentum * m + g; p = p (1 - lr * wd) - lr * m.
void Optimizer::sgd(std::size_t i, const at::Tensor& gradient, double learning_rate) {
  const at::Tensor& p = parameters_[i].tensor;
  first_[i].mul_(spec_.momentum).add_(gradient);
  if (parameters_[i].decays) p.mul_(1 - learning_rate * spec_.weight_decay);
  p.add_(first_[i], -learning_rate);
}

#if HYDRAC_HAS_FUSED_ADAMW

bool Optimizer::fused_adamw(double learning_rate) {
  for (const bool decays : {true, false}) {
    std::vector<at::Tensor> tensors, gradients, first, second, counts;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i].decays != decays) continue;
      const at::Tensor known = parameters_[i].gradient();
      tensors.push_back(parameters_[i].tensor);
      gradients.push_back(known.defined() ? known : at::zeros_like(parameters_[i].tensor));
      first.push_back(first_[i]);
      second.push_back(second_[i]);
      counts.push_back(step_counts_[i].fill_(static_cast<double>(steps_)));
    }
    if (tensors.empty()) continue;
    at::_fused_adamw_(tensors, gradients, first, second, {}, counts, learning_rate, spec_.beta1, spec_.beta2,
                      decays ? spec_.weight_decay : 0, spec_.eps, /*amsgrad=*/false, /*maximize=*/false);
  }
  return true;
}

#else

bool Optimizer::fused_adamw(double) {
  return false;
}

#endif

}  // namespace hydrac::oracle
