// A kernel as code, and what its caller must pass.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/dimensions.h"
#include "codegen/expression_text.h"
#include "codegen/kernel_text.h"
#include "ir/graph.h"

namespace hydrac::codegen {

struct KernelSource {
  explicit KernelSource(const Dialect& target = kCpuDialect) : dialect(&target) {}

  // A tensor as the next parameter.
  void take(const std::string& type, const std::string& tensor, const ir::Shape& shape, ir::Use use,
            bool is_restricted = false);
  // A pointer to a tensor's elements, under a name of the text's.
  void read(const ir::Graph& graph, const std::string& tensor, ir::Use use);
  void write(const ir::Graph& graph, const std::string& tensor, ir::Use use);

  const Dialect* dialect;
  std::string name;                  // wanted; the program makes it unique
  std::string comment;               // what it computes, over which rows and columns
  std::vector<std::string> sharing;  // a line for each pair of tensors that may share memory
  KernelText text;
  std::vector<ir::Use> arguments;       // the tensors, in the order of the parameters
  std::vector<std::string> parameters;  // what the text calls them
  std::string header;                   // the file of templates/ that the text binds to constants, if it does
  bool takes_layer = false;             // then `int layer` is last
};

// A kernel of the cpu's.
struct CpuKernel : KernelSource {
  CpuKernel() { text.attributes = "static void "; }

  int64_t workspace_bytes = 0;  // passed behind the tensors, when not 0
  // How many rows a call works on, where `std::int64_t rows` is the last parameter.
  std::optional<Size> rows = {};
};

}  // namespace hydrac::codegen
