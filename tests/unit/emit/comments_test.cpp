// What comments of emitted files may speak of.
#include "emit/comments.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace hydrac::emit {
namespace {

const std::string kBegin =
    "hydrac would write comments on what is not there, which is an error of hydrac:\n  ";

std::string refusal(const Files& files) {
  try {
    check_comments(files);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

TEST(Comments, NameWhatTheProgramOrTheRuntimeHas) {
  EXPECT_EQ(
      refusal(
          {{"kernels/attention.cuh",
            "// cuda/attention/geometry.h, attention.cuh, store_rows(c) and sum_of_partials() are there.\n"
            "void store_rows(int c);\n"},
           {"forward.cpp", "// y = gelu(x), weight_decay (1 - beta1^t); see kernels/attention.cuh\n"}}),
      "");
}

TEST(Comments, FilesAndFunctionsThatAreNowhereAreRefused) {
  EXPECT_EQ(refusal({{"kernels/attention.cuh", "// The formulas stand in no_formulas.cuh.\nint a;\n"}}),
            kBegin +
                "kernels/attention.cuh: \"// The formulas stand in no_formulas.cuh.\" names "
                "no_formulas.cuh");
  EXPECT_EQ(
      refusal({{"kernels/attention.cuh", "// Launch: attention_relaunch(problem)\nint a;\n"}}),
      kBegin + "kernels/attention.cuh: \"// Launch: attention_relaunch(problem)\" names attention_relaunch");
}

TEST(Comments, AFunctionIsThereOrOneOfFormulas) {
  EXPECT_EQ(refusal({{"kernels/block.cu", "// y = mean(x), softmax(x) and tiles_of(x)\nint tiles_of;\n"}}),
            "");
  EXPECT_EQ(refusal({{"kernels/block.cu", "// derivative(value) is that of value\nint value;\n"}}),
            kBegin + "kernels/block.cu: \"// derivative(value) is that of value\" names derivative");
}

TEST(Comments, ABarrierSaysWhatItWaitsFor) {
  const std::string bare = "void f() {\n  int a;\n  __syncthreads();\n}\n";
  EXPECT_EQ(refusal({{"kernels/block.cu", bare}}),
            kBegin + "kernels/block.cu: \"  __syncthreads();\" says not what it waits for");
  EXPECT_EQ(refusal({{"kernels/block.cu", "  __syncthreads();  // all sums are there\n"}}), "");
  EXPECT_EQ(refusal({{"kernels/block.cu", "  // All sums are there.\n  lanes.sync();\n"}}), "");
}

TEST(Comments, WhatTheModelHasNotIsNotSpokenOf) {
  const std::string comment = "// Loss of one batch, without dropout.\n";
  EXPECT_EQ(refusal({{"evaluate.cpp", comment}, {"kernels/block.cu", "int keep;\n"}}),
            kBegin + "evaluate.cpp: \"// Loss of one batch, without dropout.\" names dropout");
  EXPECT_EQ(refusal({{"evaluate.cpp", comment}, {"kernels/block.cu", "int dropout_key;\n"}}), "");
  const std::string hopper = "// On Hopper heads are grouped.\n";
  EXPECT_EQ(refusal({{"kernels/block.cu", hopper}}),
            kBegin + "kernels/block.cu: \"// On Hopper heads are grouped.\" names Hopper\n  " +
                "kernels/block.cu: \"// On Hopper heads are grouped.\" names grouped");
  EXPECT_EQ(refusal({{"kernels/block.cu", hopper + "int wgmma, kv_heads;\n"}}), "");
  EXPECT_EQ(refusal({{"kernels/block.cu", "}  // namespace hydrac::hopper_program\n"}}), "");
}

}  // namespace
}  // namespace hydrac::emit
