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

TEST(Comments, WhatTheModelHasNotIsNotSpokenOf) {
  const std::string comment = "// Loss of one batch, without dropout.\n";
  EXPECT_EQ(refusal({{"evaluate.cpp", comment}, {"kernels/block.cu", "int keep;\n"}}),
            kBegin + "evaluate.cpp: \"// Loss of one batch, without dropout.\" names dropout");
  EXPECT_EQ(refusal({{"evaluate.cpp", comment}, {"kernels/block.cu", "int dropout_key;\n"}}), "");
}

}  // namespace
}  // namespace hydrac::emit
