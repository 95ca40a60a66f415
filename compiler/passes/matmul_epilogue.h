// A fused node as the epilogue of a matmul: whether it can be one, and the two as one node.
#pragma once
#include <optional>
#include <string>

#include "cuda/matmul/geometry.h"
#include "ir/graph.h"

namespace hydrac::passes {

// How the kernel of a "fused_matmul" works: its attribute "schedule".
cuda::MatmulSchedule schedule_of(const ir::Node& fused_matmul);

// Shape that a matmul's kernel must offer the body behind it.
struct EpilogueShape {
  bool paired = false;  // it works on columns c and c + n / 2 of the matmul together
  int sums = 0;         // over the rows, for each column
  int passes = 1;       // over a row's columns; more than one where it sums over the row
};

// True if a "gemm" or a "fused_matmul" has the attribute "tail": C = A B + D E. The inputs D and E follow the
// bias of a gemm, and A and B of a fused_matmul.
bool has_tail(const ir::Node& matmul);

// True of a "grouped_matmul", and of a "fused_matmul" that was one: rows of experts times the matrix of each.
// The offsets of the rows stand behind A and B.
bool has_experts(const ir::Node& matmul);

// The first inputs of a "fused_matmul": 2 or, with a tail, 4; with experts 3.
int matrix_count(const ir::Node& fused_matmul);

// A gemm without transpose_a, a "grouped_matmul" or a "fused_matmul" as our kernels know it.
cuda::MatmulProblem matmul_problem(const ir::Graph& graph, const ir::Node& matmul,
                                   const EpilogueShape& epilogue, cuda::Chip chip);

// nullopt if no kernel of ours takes `reader` as its epilogue. The reader must work over the matmul's rows
// and columns without gathers, in one column space, with few other loads, and may load the matmul only at its
// own row and column. Pointwise work may also take the matmul's two halves side by side, and has at most one
// column sum. Work with sums over the row has up to two of them a pass and three column sums, and may store
// values that depend on the row alone.
std::optional<EpilogueShape> epilogue_shape(const ir::Graph& graph, const ir::Node& reader, ir::Use matmul);

// The "fused_matmul" that replaces the gemm `matmul`, which has no bias, or the grouped one, and `reader`,
// whose shape is `epilogue`. `is_kept`: it stores the matmul too.
ir::Node fused_matmul(const ir::Node& matmul, const ir::Node& reader, const EpilogueShape& epilogue,
                      cuda::MatmulSchedule schedule, bool is_kept);

// The "fused_matmul" that replaces the gemm `matmul`, which has no bias, alone: its body stores its operand.
// A block of its kernel has one tile: `schedule` is one_tile or few_rows; with a tail or experts it is
// persistent.
ir::Node plain_matmul(const ir::Graph& graph, const ir::Node& matmul, cuda::MatmulSchedule schedule);

}  // namespace hydrac::passes
