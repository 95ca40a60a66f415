// Which kernels of a GPU's program its functions share, and what is no kernel.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "driver/compile.h"
#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {
namespace {

using program::Call;

Compiled compiled_for_gpu(const std::string& norm, const std::vector<std::string>& overrides = {}) {
  const spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "target: h100\n"
      "model: {hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2, "
      "vocab_size: 256, position: learned, norm: " +
          norm +
          "}\n"
          "data: {path: corpus.txt}\n"
          "train: {sequence_len: 64, micro_batch_size: 16, max_steps: 10}\n"
          "optimizations: {precision: bf16, loss: fused_linear}\n",
      overrides);
  return compile(spec, passes::RecomputeChoice{}, {});
}

// The launches of a function's sections that training's forward pass has too.
std::map<std::string, program::Grid> launches(const Compiled& compiled, const std::string& function) {
  std::map<std::string, program::Grid> grids;
  for (const program::Function& f : compiled.program.functions) {
    if (f.name != function) continue;
    for (const program::Section& section : f.sections) {
      for (const Call& call : section.calls) {
        const bool shared = section.name == "input" || section.name == "block";
        const auto* launch = std::get_if<program::Launch>(&call.work);
        if (shared && launch && compiled.program.kernels[launch->kernel].header.empty())
          grids[compiled.program.kernels[launch->kernel].name] = launch->grid;
      }
    }
  }
  return grids;
}

TEST(SharedKernels, EvaluationAndGenerationLaunchThoseOfTraining) {
  for (const char* norm : {"layernorm", "rmsnorm"}) {
    const Compiled compiled = compiled_for_gpu(norm);
    const auto training = launches(compiled, "micro_step"), evaluation = launches(compiled, "evaluate"),
               generation = launches(compiled, "generate");
    ASSERT_GE(training.size(), 3u);
    std::set<std::string> names;
    for (const auto& [name, grid] : training) names.insert(name);
    for (const auto& [name, grid] : evaluation) {
      EXPECT_TRUE(names.contains(name)) << norm << ": " << name;
      EXPECT_EQ(grid, training.at(name)) << name;
    }
    for (const auto& [name, grid] : generation) {
      EXPECT_TRUE(names.contains(name)) << norm << ": " << name;
      EXPECT_EQ(grid.rows, "T") << name;
      EXPECT_EQ(grid.blocks * 16, training.at(name).blocks) << name;  // of a batch of 16 sequences
    }
  }
}

// How each function launches attention's forward pass: kernel and grid.
struct ForwardLaunch {
  const program::Kernel* kernel = nullptr;
  program::Grid grid;
};
std::map<std::string, ForwardLaunch> attention_launches(const Compiled& compiled) {
  std::map<std::string, ForwardLaunch> launches;
  for (const program::Function& function : compiled.program.functions) {
    for (const program::Section& section : function.sections) {
      for (const Call& call : section.calls) {
        const auto* launch = std::get_if<program::Launch>(&call.work);
        if (!launch) continue;
        const program::Kernel& kernel = compiled.program.kernels[launch->kernel];
        if (kernel.name.starts_with("attention_forward")) launches[function.name] = {&kernel, launch->grid};
      }
    }
  }
  return launches;
}

TEST(SharedKernels, AttentionOfOneSequenceIsThatOfABatch) {
  const Compiled compiled = compiled_for_gpu("layernorm");
  const auto launches = attention_launches(compiled);
  const ForwardLaunch &training = launches.at("micro_step"), &evaluation = launches.at("evaluate"),
                      &generation = launches.at("generate");
  EXPECT_EQ(training.kernel->name, "attention_forward");
  EXPECT_EQ(evaluation.kernel, training.kernel);
  EXPECT_EQ(generation.kernel, training.kernel);
  // A tile has 64 queries, as many as a sequence here.
  EXPECT_EQ(training.kernel->blocks_of_rows, "rows / kRows");
  EXPECT_EQ(training.grid, (program::Grid{16 * 2, "B * H * T / kRows", "B * H * T"}));
  EXPECT_EQ(evaluation.grid, training.grid);
  EXPECT_EQ(generation.grid, (program::Grid{2, "H * T / kRows", "H * T"}));
}

// The last tile of each sequence has fewer queries than the others.
TEST(SharedKernels, AttentionOfOneSequenceIsThatOfABatchAlsoWhereTilesAreNotFull) {
  const Compiled compiled = compiled_for_gpu("layernorm", {"train.sequence_len=100"});
  const auto launches = attention_launches(compiled);
  const ForwardLaunch &training = launches.at("micro_step"), &generation = launches.at("generate");
  EXPECT_EQ(generation.kernel, training.kernel);
  EXPECT_EQ(training.kernel->blocks_of_rows, "(rows / T) * ((T + kRows - 1) / kRows)");
  EXPECT_EQ(training.grid, (program::Grid{16 * 2 * 2, "B * H * ((T + kRows - 1) / kRows)", "B * H * T"}));
  EXPECT_EQ(generation.grid, (program::Grid{2 * 2, "H * ((T + kRows - 1) / kRows)", "H * T"}));
}

// Training draws numbers; evaluation and generation do not.
TEST(SharedKernels, AttentionWithDropoutIsAKernelOfItsOwn) {
  const Compiled compiled = compiled_for_gpu("layernorm", {"model.attention_dropout=0.1"});
  const auto launches = attention_launches(compiled);
  EXPECT_NE(launches.at("evaluate").kernel, launches.at("micro_step").kernel);
  EXPECT_EQ(launches.at("generate").kernel, launches.at("evaluate").kernel);
}

TEST(SharedKernels, WhatOnlyWritesZerosIsNone) {
  const Compiled compiled = compiled_for_gpu("rmsnorm");
  std::set<std::string> zeroed;
  for (const program::Function& function : compiled.program.functions) {
    for (const program::Section& section : function.sections) {
      for (const Call& call : section.calls) {
        if (!program::is<program::Zero>(call)) continue;
        zeroed.insert(compiled.graph.value(call.arguments.at(0)).name);
        EXPECT_EQ(call.writes, std::vector<bool>{true});
      }
    }
  }
  EXPECT_TRUE(zeroed.contains("d_residual"));
  for (const program::Kernel& kernel : compiled.program.kernels)
    EXPECT_FALSE(kernel.name.starts_with("zero"));
}

}  // namespace
}  // namespace hydrac::driver
