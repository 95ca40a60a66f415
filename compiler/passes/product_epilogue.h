// A fused node as the epilogue of a product: whether it can be one, and the two as one node.
#pragma once
#include <optional>
#include <string>

#include "cuda/product/geometry.h"
#include "ir/graph.h"

namespace hydrac::passes {

// The folder of templates/cuda whose kernel computes a "fused_product": its attribute "kernel".
namespace product_kernel {
inline constexpr const char* kLarge = "product";
inline constexpr const char* kSmall = "small_product";
inline constexpr const char* kRows = "row_product";               // its epilogue may sum over whole rows
inline constexpr const char* kStationary = "stationary_product";  // its epilogue is elementwise
}  // namespace product_kernel

// `fused_product`: a node of that op.
const std::string& product_kernel_of(const ir::Node& fused_product);

// What a product's kernel must offer the body behind it.
struct EpilogueShape {
  bool paired = false;  // it works on columns c and c + n / 2 of the product together
  int sums = 0;         // over the rows, for each column
  int passes = 1;       // over a row's columns; more than one where it sums over the row
};

// A gemm without transpose_a or a "fused_product" as our kernels know it; its `matrices` is 0.
cuda::ProductProblem product_problem(const ir::Graph& graph, const ir::Node& product,
                                     const EpilogueShape& epilogue, cuda::Chip chip);

// Nothing where no kernel of ours takes `reader` as its epilogue. All ask for work over the product's rows
// and columns without gathers, one column space, the product loaded only where the row and column stand, and
// few other loads. Pointwise work may also be over the product's two halves side by side, and has one column
// sum at most. Work with sums over the row has two of them a pass, three column sums, and may store what
// depends on the row alone.
std::optional<EpilogueShape> epilogue_shape(const ir::Graph& graph, const ir::Node& reader, ir::Use product);

// The "fused_product" that does what the gemm `product`, which has no bias, and then `reader`, whose shape
// is `epilogue`, do, by the kernel `kernel`. `is_kept`: it stores the product too.
ir::Node fused_product(const ir::Node& product, const ir::Node& reader, const EpilogueShape& epilogue,
                       const std::string& kernel, bool is_kept);

// The "fused_product" that does what the gemm `product`, which has no bias, does: its body stores what it is
// given. By the kernel for small products.
ir::Node plain_product(const ir::Graph& graph, const ir::Node& product);

}  // namespace hydrac::passes
