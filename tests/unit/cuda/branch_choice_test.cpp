// Which branch of a step's graph a call goes to.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "codegen/cuda_program.h"
#include "gpu_model.h"

namespace hydrac::test {
namespace {

constexpr const char* kModel =
    "hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 2, intermediate_size: 36, vocab_size: 97, "
    "norm: layernorm, position: learned, hidden_act: gelu";

// The micro-step of a small model with so many streams.
program::Function micro_step(int streams) {
  GpuModel model(small_spec(kModel, "sequence_len: 9, micro_batch_size: 30"), ir::DType::bf16);
  program::Program program = codegen::build_cuda_program(
      model.graph,
      {targets::find("sm_90"), [](const program::AttentionCall&) { return std::nullopt; }, 4, streams});
  return std::move(program.functions[0]);
}

int64_t beside(const program::Section& section) {
  return std::ranges::count(section.calls, 1, &program::Call::branch);
}

TEST(BranchChoice, GradientsOfALayersParametersAreComputedBesideTheRest) {
  const program::Function step = micro_step(2);
  for (const program::Section& section : step.sections) {
    if (section.name == "block") {
      EXPECT_EQ(beside(section), 0);
    } else if (section.name == "block_backward") {
      EXPECT_GE(beside(section), 4);
    }
  }
}

// The first branch has nothing else to do behind the last layer.
TEST(BranchChoice, WhatFollowsTheLastLayerStaysOnTheFirstBranch) {
  const program::Function step = micro_step(2);
  const program::Section& last = step.sections.back();
  ASSERT_EQ(last.name, "input_backward");
  ASSERT_GE(last.calls.size(), 4u);
  EXPECT_EQ(beside(last), 0);
}

TEST(BranchChoice, OneStreamHasOneBranch) {
  for (const program::Section& section : micro_step(1).sections)
    EXPECT_EQ(beside(section), 0) << section.name;
}

}  // namespace
}  // namespace hydrac::test
