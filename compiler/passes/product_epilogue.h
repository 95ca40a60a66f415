// A fused node as the epilogue of a product: whether it can be one, and the two as one node.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace hydrac::passes {

// What a product's kernel must offer the body behind it.
struct EpilogueShape {
  bool paired = false;  // it works on columns c and c + n / 2 of the product together
  int sums = 0;         // over the rows, for each column; one at most
};

// Nothing where `reader` is not pointwise work over the product's rows and columns, or over its two halves
// side by side: no reductions of rows and no gathers, one column space, the product loaded only where the row
// and column stand, and few other loads.
std::optional<EpilogueShape> epilogue_shape(const ir::Graph& graph, const ir::Node& reader, ir::Use product);

// The "fused_product" that does what the gemm `product`, which has no bias, and then `reader`, whose shape
// is `epilogue`, do. `is_kept`: it stores the product too. Its flag "small" is false;
// whoever knows that the kernel for small products takes it sets it.
ir::Node fused_product(const ir::Node& product, const ir::Node& reader, const EpilogueShape& epilogue,
                       bool is_kept);

// The "fused_product" that does what the gemm `product`, which has no bias, does: its body stores what it is
// given.
ir::Node plain_product(const ir::Graph& graph, const ir::Node& product);

}  // namespace hydrac::passes
