// A linear layer in training with matmuls of 8 bits and delayed scaling, spelled out as casts of float32
// numbers, because older LibTorch has no types of 8 bits.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <map>
#include <utility>

#include "oracle/job/graph.h"

namespace hydrac::oracle {

struct OpCall;

// A type of 8 bits: numbers have `digits` binary digits, the last of the smallest ones stands for 2^least.
struct Float8 {
  int digits, least;
  float largest;
};
inline constexpr Float8 kE4m3{4, -9, 448}, kE5m2{3, -16, 57344};

// x, float32, as the type holds it: to nearest even, and at most the largest number.
at::Tensor rounded_to(const at::Tensor& x, const Float8& type);

// The scale of a tensor that is there once a step: the type's largest number over the largest that the last
// 16 steps had; `start` before there was one.
class DelayedScale {
 public:
  DelayedScale(const Float8& type, float start) : type_(type), start_(start) {}

  const Float8& type() const { return type_; }
  float scale() const;
  void see(const at::Tensor& x);
  void next_step();

 private:
  Float8 type_;
  float start_, now_ = 0;
  std::array<float, 16> history_{};
  int step_ = 0;
};

// Those of a linear layer's input and of its output's gradient, by weight and layer: of all linear layers
// that multiply by the weight.
class Fp8Scales {
 public:
  struct Pair {
    DelayedScale input, gradient;
  };
  Pair& at(const Node& node, int layer, float gradient_start);
  void next_step();

 private:
  std::map<std::pair<int, int>, Pair> pairs_;
};

// A linear layer whose attributes say which of its matmuls are of 8 bits: fp8.forward (y = x W^T),
// fp8.input_gradient (d_x = d_y W) and fp8.weight_gradient (d_W = d_y^T x). x and the weight are float32 with
// numbers of 16 bits, x of as many columns as the weight.
at::Tensor fp8_linear(const OpCall& call, const at::Tensor& x);

}  // namespace hydrac::oracle
