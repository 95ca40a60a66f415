// Matmuls with fused epilogues in a whole program: what the plan, the calls and the kernels say of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "driver/compile.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

using program::Call;

Compiled compiled_with(const std::string& fused_matmuls, const std::vector<std::string>& overrides = {}) {
  const spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "target: h100\n"
      "model: {hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 2, vocab_size: 256}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, micro_batch_size: 16, max_steps: 10}\n"
      "optimizations: {precision: bf16, fused_matmuls: " +
          fused_matmuls + "}\n",
      overrides);
  return compile(spec, passes::RecomputeChoice{}, {});
}

std::vector<const ir::Node*> fused_matmuls(const Compiled& compiled) {
  std::vector<const ir::Node*> nodes;
  for (const ir::Function& function : compiled.graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op == ir::Op::fused_matmul) nodes.push_back(&node);
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
      const auto* launch = std::get_if<program::Launch>(&call.work);
      if (!launch || !launch->matmul) continue;
      ++matmuls;
      const program::Kernel& kernel = fused.program.kernels[launch->kernel];
      EXPECT_EQ(kernel.maps.size(), 2u);
      EXPECT_TRUE(call.multiplies_matrices);
      EXPECT_FALSE(may_contract(kernel));
      EXPECT_EQ(kernel.maps[0].rows, launch->matmul->m);
      EXPECT_EQ(kernel.maps[0].columns, launch->matmul->k);
      EXPECT_GE(call.flop,
                2.0 * static_cast<double>(launch->matmul->m * launch->matmul->n * launch->matmul->k));
    }
  }
  EXPECT_EQ(matmuls, 5);  // swiglu and two norms behind theirs, and gradients of swiglu and of a norm
}

TEST(FusedMatmuls, OfFewRowsAreTheLibrarys) {
  EXPECT_TRUE(fused_matmuls(compiled_with("auto")).empty());
}

std::vector<std::string> ours(const Compiled& compiled) {
  std::vector<std::string> names;
  for (const passes::MatmulChoice& choice : compiled.matmuls)
    if (choice.function == "micro_step" && choice.is_ours) names.push_back(choice.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(AskedMatmuls, AreOursOrTheLibrarysByName) {
  const Names all = ours(compiled_with("all"));
  EXPECT_NE(std::ranges::find(all, "mlp.up"), all.end());
  EXPECT_EQ(ours(compiled_with("auto")), Names{});
  EXPECT_EQ(ours(compiled_with("auto", {"optimizations.own_matmuls=[mlp.up]"})), Names{"mlp.up"});
  EXPECT_EQ(ours(compiled_with("none", {"optimizations.own_matmuls=[mlp.up]"})), Names{"mlp.up"});
  Names without = all;
  std::erase(without, "mlp.up");
  EXPECT_EQ(ours(compiled_with("all", {"optimizations.library_matmuls=[mlp.up]"})), without);
}

TEST(AskedMatmuls, OfWeightGradientsGoTogether) {
  const Names two = {"d_mlp.down.weight", "d_attn.out.weight"};
  EXPECT_EQ(ours(compiled_with("none", {"optimizations.own_matmuls=[d_mlp.down.weight, d_attn.out.weight]"})),
            two);
  Names rest = ours(compiled_with("all"));
  ASSERT_EQ(std::erase(rest, "d_attn.qkv.weight"), 1u);
  EXPECT_EQ(ours(compiled_with("all", {"optimizations.library_matmuls=[d_attn.qkv.*]"})), rest);
}

std::string refusal(const std::string& fused_matmuls, const std::vector<std::string>& overrides) {
  try {
    compiled_with(fused_matmuls, overrides);
  } catch (const runtime::InputError& error) {
    return error.what();
  }
  return "";
}

TEST(AskedMatmuls, AreRefusedWhereTheyAreNone) {
  EXPECT_EQ(
      refusal("auto", {"optimizations.own_matmuls=[mlp.upp]"}),
      "<command line>:1:27: optimizations.own_matmuls: no matmul that could be hydrac's is named mlp.upp; "
      "did you mean mlp.up?");
  EXPECT_NE(
      refusal("auto", {"optimizations.library_matmuls=[\"*nowhere\"]"})
          .find("optimizations.library_matmuls: no matmul that could be hydrac's is named *nowhere; there "
                "are attn.out"),
      std::string::npos);
  EXPECT_NE(
      refusal("auto", {"optimizations.own_matmuls=[mlp.up]", "optimizations.library_matmuls=[\"mlp.*\"]"})
          .find("mlp.up is named by library_matmuls too"),
      std::string::npos);
  EXPECT_NE(refusal("none", {"optimizations.own_matmuls=[d_mlp.down.weight]"})
                .find("d_mlp.down.weight stays the library's: gradients of weights are one kernel together"),
            std::string::npos);
}

// The tiles that a spec asks for are in the kernels' text, and one of the gradients' makes them a pair.
TEST(AttentionTiles, AreThoseOfTheSpec) {
  const auto has = [](const Compiled& compiled, const std::string& words) {
    return std::ranges::any_of(compiled.program.kernels, [&](const program::Kernel& kernel) {
      return kernel.text.find(words) != std::string::npos;
    });
  };
  const std::vector<std::string> half = {"model.num_attention_heads=4"};
  const Compiled usual = compiled_with("auto", half);
  EXPECT_TRUE(has(usual, "attention_head_gradients"));
  EXPECT_FALSE(has(usual, "attention_query_gradients"));
  std::vector<std::string> overrides = half;
  overrides.insert(overrides.end(), {"optimizations.attention_tiles.forward=128x64",
                                     "optimizations.attention_tiles.dkv=128x64"});
  const Compiled asked = compiled_with("auto", overrides);
  EXPECT_TRUE(has(asked, ".warps = 8, .row_tiles = 1, .columns = 64, .stages = 3, .blocks_per_sm = 2"));
  EXPECT_TRUE(has(asked, ".warps = 8, .row_tiles = 1, .columns = 64, .stages = 3, .blocks_per_sm = 1"));
  EXPECT_FALSE(has(asked, "attention_head_gradients"));
  EXPECT_TRUE(has(asked, "attention_query_gradients"));
}

}  // namespace
}  // namespace hydrac::driver
