// A program as hydrac could have emitted it for the smallest model there is: a unigram, whose logits are one
// trained vector, by gradient descent.
#pragma once
#include <cmath>
#include <cstddef>
#include <string>

#include "runtime/cpu/cpu_step_program.h"

namespace hydrac::test {

constexpr int kB = 2, kT = 8, kV = 256;
constexpr float kLearningRate = 0.5f;

struct TinyMemory {
  int32_t tokens[kB * kT], targets[kB * kT], prompt[kT], position;
  float inv_count;
  int32_t step;
  uint32_t rng_step, rng_seed;
  float loss, step_loss, grad_norm, learning_rate, eval_loss;
  float bias[kV], d_bias[kV], logits[kV];
};

#define HYDRAC_PLACE(member)                                     \
  runtime::Place {                                               \
    offsetof(TinyMemory, member), sizeof(TinyMemory::member) / 4 \
  }

inline runtime::ProgramLayout tiny_layout() {
  runtime::ProgramLayout layout;
  layout.arena_bytes = layout.persistent_bytes = sizeof(TinyMemory);
  layout.input_bytes = offsetof(TinyMemory, step);
  layout.inputs.tokens = HYDRAC_PLACE(tokens);
  layout.inputs.targets = HYDRAC_PLACE(targets);
  layout.inputs.inv_count = HYDRAC_PLACE(inv_count);
  layout.inputs.prompt = HYDRAC_PLACE(prompt);
  layout.inputs.position = HYDRAC_PLACE(position);
  layout.state.step = HYDRAC_PLACE(step);
  layout.state.rng_step = HYDRAC_PLACE(rng_step);
  layout.state.rng_seed = HYDRAC_PLACE(rng_seed);
  layout.results.step_loss = HYDRAC_PLACE(step_loss);
  layout.results.grad_norm = HYDRAC_PLACE(grad_norm);
  layout.results.learning_rate = HYDRAC_PLACE(learning_rate);
  layout.results.eval_loss = HYDRAC_PLACE(eval_loss);
  layout.results.logits = HYDRAC_PLACE(logits);
  layout.results.vocab_size = kV;
  layout.seed = 7;
  layout.starts = {{HYDRAC_PLACE(bias), runtime::ParameterStart::Kind::normal, 0.02}};
  layout.parameters = {{.name = "bias", .shape = {kV}, .address = offsetof(TinyMemory, bias)}};
  layout.context_length = kT;
  return layout;
}
#undef HYDRAC_PLACE

class TinyProgram final : public runtime::CpuStepProgram {
 public:
  TinyProgram() : CpuStepProgram(tiny_layout()) {}
  std::string description() const override { return "by hand"; }

 private:
  TinyMemory& memory() const { return *reinterpret_cast<TinyMemory*>(arena()); }

  void execute(runtime::Function function) override {
    switch (function) {
      case runtime::Function::micro_step:
        return forward_backward();
      case runtime::Function::update:
        return descend();
      case runtime::Function::evaluate:
        memory().eval_loss = loss(nullptr);
        return;
      case runtime::Function::generate:
        std::copy(memory().bias, memory().bias + kV, memory().logits);
        return;
      case runtime::Function::prefill:  // it has no cache
      case runtime::Function::decode:
      case runtime::Function::score:  // and no objective
      case runtime::Function::score_base:
      case runtime::Function::embed:
      case runtime::Function::load:
        return;
    }
  }

  // Sum of -log softmax(bias)[target] over the targets that count; its gradient is added to `gradient`.
  float loss(float* gradient) {
    TinyMemory& m = memory();
    float sum = 0, total = 0;
    for (float logit : m.bias) sum += std::exp(logit);
    for (const int32_t target : m.targets) {
      if (target < 0) continue;
      total -= (m.bias[target] - std::log(sum)) * m.inv_count;
      if (!gradient) continue;
      for (int v = 0; v < kV; ++v) gradient[v] += std::exp(m.bias[v]) / sum * m.inv_count;
      gradient[target] -= m.inv_count;
    }
    return total;
  }

  void forward_backward() {
    memory().loss += loss(memory().d_bias);
    ++memory().rng_step;
  }

  void descend() {
    TinyMemory& m = memory();
    float square = 0;
    for (int v = 0; v < kV; ++v) {
      square += m.d_bias[v] * m.d_bias[v];
      m.bias[v] -= kLearningRate * m.d_bias[v];
      m.d_bias[v] = 0;
    }
    m.grad_norm = std::sqrt(square);
    m.learning_rate = kLearningRate;
    m.step_loss = m.loss;
    m.loss = 0;
    ++m.step;
  }
};

}  // namespace hydrac::test
