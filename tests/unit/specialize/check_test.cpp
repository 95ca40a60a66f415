// Checking emitted programs: what is parsed, and the message when something does not.
#include "specialize/check.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace hydrac::specialize {
namespace {

std::string refusal(const EmittedProgram& program) {
  try {
    check_parses(program);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

const std::string kBegin =
    "hydrac would write code that does not parse or has a part that nothing uses, which is an error of "
    "hydrac:";

TEST(Check, AProgramOfHostAndDeviceFilesThatIncludeEachOtherParses) {
  EXPECT_EQ(
      refusal({.files = {{"dims.h", "#pragma once\nconstexpr int kTokens = 1024;\n"},
                         {"kernels/twice.cuh",
                          "#pragma once\n#include \"dims.h\"\n__global__ void twice(float* x) {\n"
                          "  if (threadIdx.x < kTokens) x[threadIdx.x] *= 2;\n}\n"},
                         {"forward.cu",
                          "#include \"kernels/twice.cuh\"\nvoid forward(float* x, cudaStream_t stream) {\n"
                          "  twice<<<4, 256, 0, stream>>>(x);\n}\n"},
                         {"train.cpp",
                          "#include <cstdint>\n#include \"dims.h\"\n#include \"runtime/train.h\"\n"
                          "int main() { return runtime::train(std::int64_t{kTokens}); }\n"},
                         {"PLAN.md", "# not code (\n"}},
               .runtime_headers = {{"runtime/train.h",
                                    "#pragma once\nnamespace runtime {\nint train(long tokens);\n}\n"}}}),
      "");
}

TEST(Check, EachProblemIsListedOnceWithItsPlace) {
  const std::string kernel = "#pragma once\n__global__ void k(float* x) {\n  x[0] = y;\n}\n";
  EXPECT_EQ(refusal({.files = {{"k.cuh", kernel},
                               {"a.cu", "#include \"k.cuh\"\n"},
                               {"b.cu", "#include \"k.cuh\"\nint f() { return 1 }\n"}}}),
            kBegin +
                "\n  k.cuh:3:10: use of undeclared identifier 'y'\n"
                "  b.cu:2:19: expected ';' after return statement");
}

// A loop over what dims.h names may run once for one model and not for another.
TEST(Check, ALoopOfAKernelThatRunsOnceAndACastToTheTypeThatIsThereAreFound) {
  EXPECT_EQ(
      refusal({.files =
                   {{"dims.h", "#pragma once\nconstexpr int L = 1;\n"},
                    {"kernels/k.cu",
                     "#include \"dims.h\"\nconstexpr int kChunks = 1;\n__global__ void k(float* x, int n) {\n"
                     "  for (int i = 0; i < kChunks; ++i) x[i] = 1;\n"
                     "  for (int i = 0; i < L; ++i) x[i] = 1;\n"
                     "  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(x[i]);\n}\n"}}}),
      kBegin +
          "\n  kernels/k.cu:4:3: a loop that runs once\n  kernels/k.cu:6:38: a cast to the type that is "
          "there");
}

// `body` in a kernel that gets x, i, which is constant, and n; dims.h names C, and D for the same number.
std::string refusal_in_kernel(const std::string& body) {
  return refusal({.files = {{"dims.h", "#pragma once\nconstexpr long C = 768;\nconstexpr int D = 768;\n"},
                            {"kernels/k.cu",
                             "#include \"dims.h\"\n__global__ void k(float* x, int n) {\n"
                             "  const int i = blockIdx.x * 4 + threadIdx.x;\n" +
                                 body + "  x[i + n] = 0;\n}\n"}}});
}

TEST(Check, AnIndexThatIsSplitAndPutTogetherAgainIsFound) {
  const std::string found = "an index that is split and put together again";
  const auto at = [&](const std::string& place) {
    return kBegin + "\n  kernels/k.cu:" + place + ": " + found;
  };
  EXPECT_EQ(refusal_in_kernel("  const int c = i % C;\n  const int t = i / C;\n  x[t * C + c] = 1;\n"),
            at("6:5"));
  EXPECT_EQ(refusal_in_kernel("  x[i / D * C + i % D] = 1;\n"), at("4:5"));
  EXPECT_EQ(refusal_in_kernel("  const int c = i % n * 8, t = i / n;\n  x[c + 3 + t * (8 * n)] = 1;\n"),
            at("5:5"));
}

TEST(Check, PartsOfAnIndexThatMakeAnotherOneAreNot) {
  EXPECT_EQ(refusal_in_kernel("  const int c = i % C;\n  const int t = i / C;\n"
                              "  x[c * n + t] = x[t * n + c];\n  x[t * C + n] = x[t * C];\n"),
            "");
  EXPECT_EQ(refusal_in_kernel("  x[n / C * C + i % C] = 1;\n"), "");
}

TEST(Check, ACastThatIsUndoneIsFound) {
  const std::string found = ": a cast back to the type that was widened";
  EXPECT_EQ(refusal_in_kernel("  const long r = blockIdx.x * 4 + threadIdx.x;\n"
                              "  x[static_cast<unsigned>(r) % C] = x[r];\n"),
            kBegin + "\n  kernels/k.cu:5:5" + found);
  EXPECT_EQ(refusal_in_kernel("  x[static_cast<int>(static_cast<long>(n))] = 1;\n"),
            kBegin + "\n  kernels/k.cu:4:5" + found);
}

TEST(Check, ACastThatNarrowsIsNot) {
  EXPECT_EQ(refusal_in_kernel("  for (long r = i; r < C; r += n) x[static_cast<unsigned>(r) % D] = 1;\n"
                              "  x[static_cast<int>(static_cast<float>(n))] = 2;\n"
                              "  x[static_cast<int>(static_cast<signed char>(n))] = 1;\n"),
            "");
}

TEST(Check, AHeaderThatNoSourceIncludesIsParsedToo) {
  EXPECT_EQ(refusal({.files = {{"a.cpp", "int a;\n"}, {"alone.h", "int b = c;\n"}}}),
            kBegin + "\n  alone.h:1:9: use of undeclared identifier 'c'");
}

TEST(Check, ACallThatTheRuntimeDoesNotTakeIsFound) {
  EXPECT_EQ(refusal({.files = {{"a.cpp", "#include \"runtime/x.h\"\nvoid g(float* p) { f(p, 1); }\n"}},
                     .runtime_headers = {{"runtime/x.h", "void f(float* x);\n"}}}),
            kBegin + "\n  a.cpp:2:20: no matching function for call to 'f'");
}

TEST(Check, WhatNothingUsesIsFoundButInTheRuntime) {
  EXPECT_EQ(
      refusal({.files = {{"k.cu",
                          "#include \"cuda/x.cuh\"\n__global__ void k(float* x, float* y) {\n"
                          "  const int z = 1;\n  *x = f(1, 2);\n}\n"}},
               .runtime_headers = {{"cuda/x.cuh", "__device__ inline int f(int a, int b) { return a; }\n"}}}),
      kBegin + "\n  k.cu:3:13: unused variable 'z'\n  k.cu:2:36: unused parameter 'y'");
}

TEST(Check, AnIncludeThatIsNotThereIsFound) {
  EXPECT_EQ(refusal({.files = {{"a.cpp", "#include \"gone.h\"\n"}}}),
            kBegin + "\n  a.cpp:1:10: 'gone.h' file not found");
}

}  // namespace
}  // namespace hydrac::specialize
