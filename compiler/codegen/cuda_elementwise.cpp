// What an elementwise epilogue has instead of stores (cuda_epilogue.cpp): the matmul's kernel says of which
// columns the elements are that it gives, and takes those of the matrices that the epilogue writes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"
#include "codegen/cuda_matmul.h"
#include "passes/matmul_epilogue.h"

namespace hydrac::codegen {

using ir::ExprId;

bool CudaBodyPrinter::is_elementwise() const {
  return node_.matmul.value != ir::kNoValue &&
         passes::matmul_kernel_of(node_) == passes::matmul_kernel::kStationary;
}

// Whether the epilogue returns what it stores there.
bool CudaBodyPrinter::is_matrix(int operand) const {
  return std::ranges::count(matrices_, operand) > 0;
}

// "&x, &y": of the kernel's parameters.
std::string CudaBodyPrinter::matrix_addresses() const {
  std::vector<std::string> addresses;
  for (const int operand : matrices_) addresses.push_back("&" + operand_names_[operand]);
  return fmt::format("{}", fmt::join(addresses, ", "));
}

// What the epilogue returns for a store.
std::string CudaBodyPrinter::output_element(int operand) const {
  return "out." + operand_names_[operand];
}

// What the matmul's kernel asks of the struct.
std::string CudaBodyPrinter::matrix_members() const {
  Writer out(1);
  out.line(fmt::format("static constexpr int outputs = {};  // matrices", matrices_.size()));
  out.open("struct Outputs {");
  for (const int operand : matrices_)
    out.line(
        fmt::format("Vector<{}, {}> {};", c_type(operand), kColumnsOfAnEpilogue, operand_names_[operand]));
  out.close("};");
  out.line("const TensorMap* matrices[outputs];");
  return out.text();
}

// A vector of the columns, of which the thread loads its elements'.
void CudaBodyPrinter::print_element_load(ExprId load) {
  const ir::Expr& expr = body_.exprs[load];
  ir::Index start = expr.index;
  start[0].affine = {};
  out_.line(fmt::format("{} = cuda::load_elements({}, {});", columns_.at(load).name,
                        pointer(expr.operand, start), variables_[body_.spaces[epilogue_space()][0]]));
}

// The body itself, in one pass.
std::string CudaBodyPrinter::element_function(const std::vector<std::string>& matmuls) {
  out_ = Writer(2);
  print_row();
  const std::string row = out_.text();
  out_ = Writer(1);
  out_.open(fmt::format("__device__ Outputs operator()({}) {{", fmt::join(matmuls, ", ")));
  out_.line("Outputs out;");
  out_.append(row);
  out_.line("return out;");
  out_.close();
  return out_.text();
}

}  // namespace hydrac::codegen
