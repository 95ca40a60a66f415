// The scales of 8-bit tensors as device state.
#pragma once
#include <string>

#include "ops/builder.h"

namespace hydrac::passes {

// The scale of one quantized tensor, a slot a layer, f32 []: the largest of its values so far; what it is
// multiplied by; what its elements then are, at a multiple of 16 bytes.
struct Scale {
  ir::ValueId largest, scale, inverse;
};

// The scales of many tensors of one type, so that one kernel makes them all.
class ScalePack {
 public:
  // `start`: the scale of what no step has seen.
  ScalePack(ir::Graph& graph, std::string name, ir::DType dtype, double start)
      : graph_(graph), name_(std::move(name)), dtype_(dtype), start_(start) {}

  ir::DType dtype() const { return dtype_; }
  Scale add(const std::string& tensor, int slots);

  // Emits what makes the scales of the largest values of 16 steps. `step` (i32 []): then what is the largest
  // so far, on any of `ranks`, is noted as that step's first, and begins anew; no value: of what is noted.
  void from_history(ops::RegionBuilder& b, ir::Use step, int64_t ranks);
  // Of what is the largest so far, which begins anew.
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
