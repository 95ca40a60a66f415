// Facts about an operation. One op (with its gradient ops) lives in one file of this folder, which defines
// its OpInfo; ir/ops.def names them all. There are two kinds:
//   - generated: `body` writes the op as a fused-kernel Body, and code generation does the rest;
//   - library:   no body; the target supplies a kernel or a library call (gemm, attention, scatter).
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "ir/body_builder.h"
#include "ir/graph.h"

namespace hydrac::ops {

class Gradient;

struct Cost {
  double flop = 0;
  double bytes = 0;  // each operand once
};

// A dense tensor of float64, for references.
struct Tensor64 {
  std::vector<int64_t> shape;
  std::vector<double> data;
};

struct OpInfo {
  ir::Op op;
  // In terms of `inputs` and `outputs`; stands above the kernels that the op is part of.
  std::string_view formula;
  // Generated ops: what a kernel calls the operands, in the node's order. A node's attributes "input_name"
  // and "output_name" name the first ones otherwise, and "of_gradients" puts "d_" before all.
  std::vector<std::string_view> inputs = {}, outputs = {};
  // The outputs behind the first are a value a row. Kernels store them in every function, also where nobody
  // reads them: then training, evaluation and generation run the same kernel.
  bool stores_statistics = false;
  // A term of what training minimizes: its gradient is not that of anything that reads its output.
  bool is_loss = false;
  // The op that computes the first output from the inputs and these statistics, where that is less work.
  std::optional<ir::Op> from_statistics = {};
  // The formula where a node's attributes leave something of it out.
  std::string (*formula_of)(const ir::Node&) = nullptr;
  // The kernel's name where that is not the op's.
  std::string (*kernel)(const ir::Node&) = nullptr;
  ir::Body (*body)(const ir::Graph&, const ir::Node&) = nullptr;
  // Emits the gradients of the inputs; null where no gradient flows through the op.
  void (*gradient)(Gradient&, const ir::Node&) = nullptr;
  Cost (*cost)(const ir::Graph&,
               const ir::Node&) = nullptr;  // library ops; others are counted from their body
  // The definition in plain float64 loops, the yardstick of tests: inputs in the node's order (absent ones
  // empty).
  void (*reference)(const ir::Node&, const std::vector<Tensor64>& inputs,
                    std::vector<Tensor64>& outputs) = nullptr;
};

const std::vector<const OpInfo*>& all_ops();
const OpInfo& op_info(ir::Op op);  // std::logic_error for what passes make of ops

}  // namespace hydrac::ops
