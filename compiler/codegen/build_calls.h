// What the builders of all targets' programs share: products as calls, scratch memory as values, kernels with
// unique names.
#pragma once
#include <map>
#include <string>

#include "program/program.h"

namespace hydrac::codegen {

// A "gemm" node as a call with arguments A, B, C.
program::Call gemm_call(const ir::Graph& graph, const ir::Node& node);

// An "attention" or "attention_backward" node as a library's call, without its workspace.
program::Call attention_call(const ir::Graph& graph, const ir::Node& node);

// Fills what the call of a node says of its operands and results; `node` as it was before scratch memory
// joined its outputs.
void note_tensors(const ir::Node& node, program::Call& call);

// Scratch memory is a value that the node writes, so that the memory plan gives it a place.
ir::Use add_workspace(ir::Graph& graph, const ir::Region& region, ir::Node& node, const std::string& kernel,
                      int64_t bytes);

// Kernels of a program. Those with the same text are one, if they are launched alike too: a kernel that needs
// no bounds has the same text for any number of rows.
class KernelTable {
 public:
  explicit KernelTable(std::vector<program::Kernel>& kernels) : kernels_(kernels) {}

  // `name`: fused ops joined by '+'. `text`: the definition, with kNamePlaceholder. Returns its position.
  int add(const std::string& name, const std::string& comment, const std::string& text,
          const std::string& origin, const program::Launch& launch = {});

 private:
  std::vector<program::Kernel>& kernels_;
  std::map<std::pair<std::string, program::Launch>, int> by_text_;
  std::map<std::string, int> names_;
};

}  // namespace hydrac::codegen
