// Matmuls with fused epilogues in a whole program: what the plan, the calls and the kernels say of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "driver/compile.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

using program::Call;

Compiled compiled_with(const std::string& fused_matmuls) {
  const spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "target: h100\n"
      "model: {hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 2, vocab_size: 256}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, micro_batch_size: 16, max_steps: 10}\n"
      "optimizations: {precision: bf16, fused_matmuls: " +
      fused_matmuls + "}\n");
  return compile(spec, passes::RecomputeChoice{}, {});
}

std::vector<const ir::Node*> fused_matmuls(const Compiled& compiled) {
  std::vector<const ir::Node*> nodes;
  for (const ir::Function& function : compiled.graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op == "fused_matmul") nodes.push_back(&node);
      }
    }
  }
  return nodes;
}

TEST(FusedMatmuls, HaveAPlaceInMemoryOnlyWhereTheyAreStored) {
  const Compiled compiled = compiled_with("all");
  const std::vector<const ir::Node*> nodes = fused_matmuls(compiled);
  int stored = 0;
  for (const ir::Node* node : nodes) {
    const bool is_stored = std::ranges::count(node->outputs, node->matmul) > 0;
    EXPECT_EQ(compiled.plan.placements.contains(storage_of(compiled.graph, node->matmul.value)), is_stored);
    stored += is_stored;
  }
  EXPECT_GT(stored, 0);
  EXPECT_LT(stored, static_cast<int>(nodes.size()));
}

TEST(FusedMatmuls, AreOneCallWithTheWorkOfBoth) {
  const auto work = [](const Compiled& compiled) {
    double flop = 0, bytes = 0;
    for (const program::Section& section : compiled.program.functions[0].sections) {
      for (const Call& call : section.calls) {
        flop += std::max(section.layers, 1) * call.flop;
        bytes += std::max(section.layers, 1) * call.bytes;
      }
    }
    return std::pair(flop, bytes);
  };
  const Compiled fused = compiled_with("all"), apart = compiled_with("none");
  EXPECT_TRUE(fused_matmuls(apart).empty());
  EXPECT_EQ(work(fused).first, work(apart).first);
  EXPECT_LT(work(fused).second, work(apart).second);
  int matmuls = 0;
  for (const program::Section& section : fused.program.functions[0].sections) {
    for (const Call& call : section.calls) {
      if (call.kind != Call::Kind::launch || !call.multiplies_one_matmul()) continue;
      ++matmuls;
      const program::Kernel& kernel = fused.program.kernels[call.kernel];
      EXPECT_EQ(kernel.maps.size(), 2u);
      EXPECT_TRUE(call.multiplies_matrices);
      EXPECT_FALSE(may_contract(kernel));
      EXPECT_EQ(kernel.maps[0].rows, call.gemm.m);
      EXPECT_EQ(kernel.maps[0].columns, call.gemm.k);
      EXPECT_GE(call.flop, 2.0 * static_cast<double>(call.gemm.m * call.gemm.n * call.gemm.k));
    }
  }
  EXPECT_EQ(matmuls, 5);  // swiglu and two norms behind theirs, and gradients of swiglu and of a norm
}

TEST(FusedMatmuls, OfFewRowsAreTheLibrarys) {
  EXPECT_TRUE(fused_matmuls(compiled_with("auto")).empty());
}

}  // namespace
}  // namespace hydrac::driver
