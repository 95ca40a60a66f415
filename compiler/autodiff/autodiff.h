// Reverse-mode differentiation of a function of the graph: the walk only; each op's rule lives with the op.
//
// Before: `function` holds forward regions whose last one computes the scalar loss; others may add terms to
// it
//         (ops::OpInfo::is_loss).
// After:  for every forward region in which something trains or passes a gradient on to what does, last to
//         first, there is a backward region (loops run downwards), and every trained parameter has its
//         gradient value "d_<name>". Frozen parameters have none. The last forward region's backward nodes
//         are appended to that region itself, so that the loss can be fused with the first step of its
//         gradient.
#pragma once
#include "ir/graph.h"

namespace hydrac::autodiff {

struct Options {
  // Gradients keep what earlier micro-batches put there, and each node adds to it; the update zeroes them.
  bool accumulate_micro_batches = false;
};

void differentiate(ir::Graph& graph, ir::Function& function, const Options& options);

}  // namespace hydrac::autodiff
