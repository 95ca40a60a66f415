// Runs functions of a graph in float64: fused nodes through ir::evaluate, library nodes (gemm, attention and
// its backward, the embedding's scatter) as plain loops. Views, slots and layers are as in the real program,
// so a pass that places a tensor wrongly shows.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"

namespace hydrac::test {

// The matmul of a "fused_matmul", as a "gemm" or a "grouped_matmul".
ir::Node matmul_of(const ir::Node& fused_matmul);
// The matmuls of a "weight_gradients", each as a "gemm".
std::vector<ir::Node> matmuls_of(const ir::Node& weight_gradients);

class Interpreter {
 public:
  // Activations start as NaN, so that reading one before it is written shows; everything else as 0.
  explicit Interpreter(const ir::Graph& graph);

  // Runs one function; the graph must be expanded.
  void run(const std::string& function);
  void run(const ir::Node& node, int layer, int iteration = 0);

  // A tensor, dense and row-major; `layer` is what a slot of a layer counts from.
  std::vector<double> read(ir::Use use, int layer = 0) const;
  void write(ir::Use use, const std::vector<double>& dense, int layer = 0);
  double read_scalar(ir::ValueId id) const { return read({id, {}}).at(0); }

  // The whole storage behind a use (see ir::storage_of), and the position in it of element 0 of the use.
  std::vector<double>& storage(ir::Use use, int layer);
  int64_t first_element(ir::Use use, int layer) const;

 private:
  ops::Tensor64 tensor(ir::Use use, int layer) const;
  void run_fused(const ir::Node& node, int layer);
  void run_gemm(const ir::Node& node, int layer, int iteration);
  void run_reference(const ir::Node& node, int layer);
  void run_attention(const ir::Node& node, int layer);
  void run_cache_append(const ir::Node& node, int layer);
  void run_attention_decode(const ir::Node& node, int layer);
  void run_attention_backward(const ir::Node& node, int layer);
  void run_embedding_backward(const ir::Node& node, int layer);
  int physical_slot(ir::Use use, int layer) const;

  const ir::Graph& graph_;
  int first_layer_ = 0;                                               // of the region that runs
  std::map<ir::ValueId, std::vector<std::vector<double>>> storages_;  // by storage, then slot
};

}  // namespace hydrac::test
