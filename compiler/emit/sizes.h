// Sizes of tensors as C++ expressions of the program's dimensions: "3 * H * D".
#pragma once
#include <string>

#include "codegen/dimensions.h"
#include "program/program.h"

namespace hydrac::emit {

inline std::string size_text(const codegen::Dimensions& dimensions, const ir::Dim& dim) {
  return dimensions.of(dim).code.text;
}

inline std::string elements_text(const codegen::Dimensions& dimensions, const ir::Shape& shape) {
  return dimensions.of(shape).code.text;
}

// Into how many parts the head cuts a batch, kHeadParts; 0 where it takes all at once.
int head_parts(const program::Program& program);

// A matmul as emitted code writes it.
struct MatmulText {
  std::string name;     // by the transposed operand: "nn", "nt", "tn"
  std::string m, n, k;  // "B * T"
};
// std::logic_error where both operands are transposed.
MatmulText matmul_text(const ir::Graph& graph, const codegen::Dimensions& dimensions,
                       const program::Call& gemm);

}  // namespace hydrac::emit
