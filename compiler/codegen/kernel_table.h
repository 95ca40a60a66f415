// The kernels of a program while it is built: which of them are one, and what each is called.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/kernel_source.h"
#include "program/program.h"

namespace hydrac::codegen {

// Shortens the names of fused ops: "cross_entropy+mean_loss+mean_loss_backward+cross_entropy_backward"
// becomes "cross_entropy_loss_and_gradient".
std::string kernel_name(const std::string& fused);

// The parts of the model that the node's inputs belong to: "mlp" for "mlp.out".
std::vector<std::string> sources_of(const ir::Graph& graph, const ir::Node& node);

// The place of a kernel's first call. It distinguishes two different kernels that would share a name.
struct KernelPlace {
  std::string function, region, scope;
  std::string label;                    // the tensor it computes: "attn.k"
  std::vector<std::string> sources;     // the parts of the model that its inputs come from: "mlp"
  std::vector<std::string> parameters;  // names of its tensors
};

// Kernels with the same code are one, whatever their comments. The number of blocks of a launch belongs to
// the call, because a kernel without bounds has the same text for any number of rows. If one call's pointers
// may alias and another's may not, the shared kernel has no __restrict__ for either.
class KernelTable {
 public:
  explicit KernelTable(std::vector<program::Kernel>& kernels) : kernels_(kernels) {}

  // `kernel`: everything but what `source` has. `blocks`: of this launch; all calls of a kernel without
  // blocks_of_rows must agree. Returns its position.
  int add(program::Kernel kernel, const KernelSource& source, int64_t blocks, const KernelPlace& place);

 private:
  struct Entry {
    KernelSource source;
    KernelPlace place;
  };
  struct Key {
    std::string code;  // without __restrict__
    program::Block block;
    std::string blocks_of_rows;
    int64_t blocks = 0;                    // of all launches, where they are the same
    std::vector<program::MatrixMap> maps;  // rows may stand there alone: the device counts those of experts
    auto operator<=>(const Key&) const = default;
  };
  std::string unique(const std::string& wanted, const KernelPlace& place);
  void define(int kernel);

  std::vector<program::Kernel>& kernels_;
  std::vector<Entry> entries_;  // by position in kernels_
  std::map<Key, int> by_key_;
  std::map<std::string, int> by_name_;
};

}  // namespace hydrac::codegen
