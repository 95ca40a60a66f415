// Two kernels as one template: what becomes a parameter, what stands under the flag, and what keeps them
// apart.
#include "emit/kernels/kernel_difference.h"

#include <gtest/gtest.h>

namespace hydrac::emit {
namespace {

// The template's body with `flag`, or "" where the two are not variants of one.
std::string merged(const Lines& larger, const Lines& smaller, const std::vector<std::string>& missing = {}) {
  const auto difference = kernel_difference(larger, smaller, missing);
  return difference ? template_body(larger, difference->replaced, difference->edits, "flag") : "";
}

TEST(KernelDifference, AConstantOfBothBecomesAParameter) {
  const Lines larger = {"constexpr int kSite = 7;", "x[0] = kSite;"},
              smaller = {"constexpr int kSite = 9;", "x[0] = kSite;"};
  const auto difference = kernel_difference(larger, smaller, {});
  ASSERT_TRUE(difference);
  ASSERT_EQ(difference->constants.size(), 1u);
  EXPECT_EQ(difference->constants[0].type, "int");
  EXPECT_EQ(difference->constants[0].name, "kSite");
  EXPECT_EQ(difference->constants[0].larger, "7");
  EXPECT_EQ(difference->constants[0].smaller, "9");
  EXPECT_EQ(merged(larger, smaller), "x[0] = kSite;\n");
  EXPECT_EQ(merged(larger, {"constexpr long kSite = 9;", "x[0] = kSite;"}), "");
  EXPECT_EQ(merged({"constexpr float kScale = 2.0f;"}, {"constexpr float kScale = 3.0f;"}), "");
}

TEST(KernelDifference, SoDoTheRowsOfALoop) {
  const Lines larger = {"for (std::int64_t r = 0; r < B * T; ++r) {", "y[r] = 0.0f;", "}"},
              smaller = {"for (std::int64_t r = 0; r < T; ++r) {", "y[r] = 0.0f;", "}"};
  const auto difference = kernel_difference(larger, smaller, {});
  ASSERT_TRUE(difference);
  ASSERT_EQ(difference->constants.size(), 1u);
  EXPECT_EQ(difference->constants[0].name, "kRows");
  EXPECT_EQ(difference->constants[0].smaller, "T");
  EXPECT_EQ(merged(larger, smaller), "for (std::int64_t r = 0; r < kRows; ++r) {\ny[r] = 0.0f;\n}\n");
}

TEST(KernelDifference, WhatAnOutputNeedsStandsUnderTheFlag) {
  const Lines larger = {"float* y_row = y + r * C;",
                        "float* copy_row = copy + r * C;",
                        "// Store y, copy.",
                        "float copy_out[4];",
                        "for (int j = 0; j < 4; ++j) {",
                        "y_row[j] = x[j];",
                        "copy_out[j] = x[j];",
                        "}",
                        "store(copy_row, copy_out);",
                        "add(a, b);"},
              smaller = {"float* y_row = y + r * C;", "// Store y.", "for (int j = 0; j < 4; ++j) {",
                         "y_row[j] = x[j];",          "}",           "add(a);"};
  EXPECT_EQ(merged(larger, smaller, {"copy"}),
            "float* y_row = y + r * C;\n"
            "float* copy_row = flag ? copy + r * C : nullptr;\n"
            "// Store y, copy.\n"
            "float copy_out[4];\n"
            "for (int j = 0; j < 4; ++j) {\n"
            "y_row[j] = x[j];\n"
            "if constexpr (flag) copy_out[j] = x[j];\n"
            "}\n"
            "if constexpr (flag) store(copy_row, copy_out);\n"
            "if constexpr (flag)\n"
            "add(a, b);\n"
            "else\n"
            "add(a);\n");
  EXPECT_EQ(merged(larger, smaller), "");
}

TEST(KernelDifference, AStatementThatTheOtherHasInAnotherFormIsExchanged) {
  EXPECT_EQ(merged({"a[0] = 1;", "loss[0] += total;", "b[0] = 1;"},
                   {"a[0] = 1;", "loss[0] = total;", "b[0] = 1;"}, {"b"}),
            "a[0] = 1;\nif constexpr (flag)\nloss[0] += total;\nelse\nloss[0] = total;\nb[0] = 1;\n");
}

TEST(KernelDifference, AValueThatTheOtherWritesOutIsNamedForBoth) {
  EXPECT_EQ(merged({"const float a = x * y;", "const float b = a + 1.0f;", "d[0] = a;", "z[0] = b;"},
                   {"z[0] = (x * y) + 1.0f;"}, {"d"}),
            "const float a = x * y;\nconst float b = a + 1.0f;\nif constexpr (flag) d[0] = a;\nz[0] = b;\n");
}

TEST(KernelDifference, WhatWouldGoOutOfScopeKeepsThemApart) {
  EXPECT_EQ(merged({"RunningLargest seen(largest);", "y[0] = x[0];", "seen.raise();"}, {"y[0] = x[0];"},
                   {"largest"}),
            "");
  EXPECT_EQ(merged({"auto [a, b] = both(largest);", "y[0] = x[0];", "z[0] = a + b;"}, {"y[0] = x[0];"},
                   {"largest"}),
            "");
}

TEST(KernelDifference, OtherWorkKeepsThemApart) {
  EXPECT_EQ(merged({"y[0] = x[0];"}, {"y[0] = x[0];", "z[0] = x[0];"}), "");
  EXPECT_EQ(merged({"for (;;) {", "a();", "b();", "}"}, {"a();", "b();"}, {"x"}), "");
  EXPECT_EQ(merged({"const float a = 1.0f;", "y[0] = a;"}, {"const float a = 2.0f;", "y[0] = a;"}, {"y"}),
            "");
}

}  // namespace
}  // namespace hydrac::emit
