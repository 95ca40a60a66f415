// Clipping and the optimizers' updates, in place, from their formulas (or torch's own fused AdamW).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "oracle/aten/tensors.h"
#include "oracle/job/job.h"

namespace hydrac::oracle {

// Euclidean norm of all gradients together.
double gradient_norm(const std::vector<Parameter>& parameters);

// Scales every gradient by min(1, max_norm / (norm + 1e-6)); max_norm 0 leaves them alone.
void clip_gradients(const std::vector<Parameter>& parameters, double norm, double max_norm);

class Optimizer {
 public:
  // As the job says, which is also what is stored in bf16 or 8 bits after each step. prefer_fused: let
  // LibTorch's own AdamW kernel do the update where it has one for the CPU (from 2.4 on). `job` and
  // `parameters` must outlive the optimizer. matmuls: the 16-bit type in which Muon's iteration runs, as
  // programs for GPUs have it.
  Optimizer(const Job& job, const std::vector<Parameter>& parameters, bool prefer_fused,
            std::optional<at::ScalarType> matmuls = std::nullopt);

  // Updates every parameter from its gradient; a parameter without one is treated as if it were zero.
  void step(double learning_rate);

 private:
  void update(double learning_rate);
  void round();
  void quantize();
  void adamw(std::size_t i, const at::Tensor& gradient, double learning_rate);
  void lion(std::size_t i, const at::Tensor& gradient, double learning_rate);
  void sgd(std::size_t i, const at::Tensor& gradient, double learning_rate);
  void muon(std::size_t i, const std::vector<OptimizerSpec::Rows>& matrices, const at::Tensor& gradient,
            double learning_rate);
  at::Tensor rounded(const at::Tensor& tensor) const;
  at::Tensor orthogonalized(const at::Tensor& matrix) const;
  bool fused_adamw(double learning_rate);
  at::Tensor scratch_like(const at::Tensor& tensor) const;

  const Job& job_;
  const OptimizerSpec& spec_;
  const std::vector<Parameter>& parameters_;
  bool prefer_fused_;
  std::optional<at::ScalarType> matmuls_;
  std::int64_t steps_ = 0;
  std::vector<at::Tensor> first_, second_;  // momentum; adamw: squared-gradient average
  std::vector<at::Tensor> step_counts_;     // what the fused kernel wants them to be
  at::Tensor scratch_;                      // as long as the largest parameter
};

}  // namespace hydrac::oracle
