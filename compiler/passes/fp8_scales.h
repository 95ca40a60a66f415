// The scales of 8-bit tensors as device state.
#pragma once
#include <string>

#include "ops/builder.h"

namespace hydrac::passes {

// The scale of one quantized tensor, f32 [] with a slot a layer: the absmax so far; the factor for
// quantizing; and its inverse, at a multiple of 16 bytes.
struct Scale {
  ir::ValueId largest, scale, inverse;
};

// The scales of many tensors of one type, so that one kernel makes them all.
class ScalePack {
 public:
  // `start`: the scale before the first step.
  ScalePack(ir::Graph& graph, std::string name, ir::DType dtype, double start)
      : graph_(graph), name_(std::move(name)), dtype_(dtype), start_(start) {}

  ir::DType dtype() const { return dtype_; }
  Scale add(const std::string& tensor, int slots);

  // Emits the kernels that compute scales from the absmax of the last 16 steps. With `step` (i32 []), the
  // absmax since the last call, over all `ranks`, first enters the history and is reset to 0. Without it, the
  // history is used as it is.
  void from_history(ops::RegionBuilder& b, ir::Use step, int64_t ranks);
  // Computes scales from the absmax since the last call, and resets that to 0.
  void from_largest(ops::RegionBuilder& b);

 private:
  ir::ValueId pack(const std::string& what, ir::Role role);
  ir::ValueId view(ir::ValueId pack, const std::string& tensor, int slots, int64_t stride);
  void store_scale(ir::BodyBuilder& k, ir::Term most) const;

  ir::Graph& graph_;
  std::string name_;
  ir::DType dtype_;
  double start_;
  int64_t rows_ = 0;
  ir::ValueId largest_ = ir::kNoValue, scale_ = ir::kNoValue, history_ = ir::kNoValue;  // [rows], [rows, 16]
  ir::ValueId spaced_ = ir::kNoValue, inverse_ = ir::kNoValue;  // [rows, 4], and the first of each row
};

}  // namespace hydrac::passes
