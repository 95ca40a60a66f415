#include "emit/sizes.h"

#include <stdexcept>

namespace hydrac::emit {

int head_parts(const program::Program& program) {
  for (const program::Section& section : program.functions.front().sections) {
    if (section.name == "head") return section.layers;
  }
  return 0;
}

MatmulText matmul_text(const ir::Graph& graph, const codegen::Dimensions& dimensions,
                       const program::Call& gemm) {
  const auto& matmul = std::get<program::Gemm>(gemm.work);
  const program::GemmShape& g = matmul.shape;
  const auto operands = matmul.operands(gemm.arguments);
  if (g.transpose_a && g.transpose_b) throw std::logic_error("no matmul transposes both operands");
  const ir::Shape &a = graph.value(operands.a).shape, &c = graph.value(operands.c).shape;
  return {.name = g.transpose_a   ? "tn"
                  : g.transpose_b ? "nt"
                                  : "nn",
          .m = elements_text(dimensions, {c.begin() + (g.batch > 1), c.end() - 1}),
          .n = size_text(dimensions, c.back()),
          .k = g.transpose_a ? elements_text(dimensions, {a.begin() + (g.batch > 1), a.end() - 1})
                             : size_text(dimensions, a.back())};
}

}  // namespace hydrac::emit
