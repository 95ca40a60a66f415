// Tools of an op's gradient rule: a builder for the backward region that knows the gradients so far.
#pragma once
#include "ops/builder.h"

namespace hydrac::ops {

// Place of a parameter's gradient, and whether it is added to what is there.
struct ParameterGradient {
  ir::Use target;
  bool accumulate = false;
};

class Gradient : public RegionBuilder {
 public:
  using RegionBuilder::RegionBuilder;
  virtual ~Gradient() = default;

  // The gradient of an output of the node, complete when the node's rule runs. Absent where nothing reads it.
  virtual std::optional<ir::Use> of(ir::Use output) = 0;
  // True if the input needs a gradient.
  virtual bool wanted(ir::Use input) const = 0;
  // Adds a contribution to the gradient of an activation; same shape.
  virtual void contribute(ir::Use input, ir::Use gradient) = 0;
  // Place for the gradient of a parameter. Call it once for each node that writes one, in order of emission.
  virtual ParameterGradient parameter(ir::Use parameter) = 0;

  // "d_" and the name of the value it is the gradient of.
  std::string name_of(ir::Use use) const { return "d_" + value(use).name; }
  // Emits `op` with one output shaped like `input` and contributes it.
  void contribute_op(ir::Use input, ir::Op op, std::vector<ir::Use> inputs, ir::Attributes attributes = {});
};

}  // namespace hydrac::ops
