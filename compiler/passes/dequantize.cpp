// Matrices that are kept as 4-bit codes, as numbers around the matmuls that read them.
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "ops/nf4.h"
#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;
using ir::Value;
using ir::ValueId;

class Dequantization {
 public:
  explicit Dequantization(ir::Graph& graph) : graph_(graph) {}

  void run() {
    for (ir::Function& function : graph_.functions) {
      for (ir::Region& region : function.regions) rewrite(function, region);
    }
  }

 private:
  void rewrite(const ir::Function& function, ir::Region& region) {
    std::map<Use, Use> made;
    std::vector<Node> nodes = std::move(region.nodes);
    region.nodes.clear();
    for (Node& node : nodes) {
      for (Use& input : node.inputs) {
        if (!is_quantized(input.value)) continue;
        const auto [found, is_new] = made.try_emplace(input);
        if (is_new) found->second = numbers_of(input, function, region, node.scope);
        input = found->second;
      }
      region.nodes.push_back(std::move(node));
    }
  }

  bool is_quantized(ValueId id) const {
    if (id == ir::kNoValue) return false;
    const Value& value = graph_.value(id);
    return value.parameter && value.parameter->nf4;
  }

  // The layer's matrix, written in this region.
  Use numbers_of(Use matrix, const ir::Function& function, ir::Region& region, const std::string& scope) {
    const ir::Nf4Storage stored = *graph_.value(matrix).parameter->nf4;
    ValueId numbers = matrix.value;
    if (graph_.value(matrix).role == ir::Role::frozen) {
      graph_.value(matrix.value).role = ir::Role::activation;  // its first reader's: the forward pass
    } else {
      Value again = graph_.value(matrix);
      again.name += region.backward ? ".again" : "." + function.name;
      again.parameter.reset();
      numbers = graph_.add(std::move(again));
    }
    ops::RegionBuilder b(graph_, region);
    b.enter(scope, "adapter.base");
    ops::dequantize_nf4(b, stored, matrix.slot, {numbers, matrix.slot});
    return {numbers, matrix.slot};
  }

  ir::Graph& graph_;
};

}  // namespace

void dequantize(ir::Graph& graph, Log& log) {
  Dequantization(graph).run();
  int64_t elements = 0, bytes = 0, matrices = 0;
  ir::DType dtype = ir::DType::f32;
  for (const Value& value : graph.values) {
    if (!value.parameter || !value.parameter->nf4) continue;
    const ir::Nf4Storage& stored = *value.parameter->nf4;
    matrices += static_cast<int64_t>(stored.parts.size()) * value.slots;
    dtype = value.dtype;
    elements += element_count(value.shape) * value.slots;
    for (const ValueId part : {stored.codes, stored.block_codes, stored.groups}) {
      const Value& kept = graph.value(part);
      bytes += element_count(kept.shape) * size_of(kept.dtype) * kept.slots;
    }
  }
  log.push_back(
      {"nf4", fmt::format("{} linear layers of blocks are 4-bit codes: {:.1f} million weights in {:.1f} MB; "
                          "a layer's matrix becomes {} before the matmul that reads it",
                          matrices, static_cast<double>(elements) / 1e6, static_cast<double>(bytes) / 1e6,
                          to_string(dtype))});
}

}  // namespace hydrac::passes
