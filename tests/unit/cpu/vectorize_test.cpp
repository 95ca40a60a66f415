// The functions of hydrac/math.h and the matmuls of cpu/tile.h must become vector instructions: this
// compiles small loops with the compiler that built the test and reads the assembly.
#include <gtest/gtest.h>

#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "tests/unit/support/source_dir.h"

namespace {

// The assembly of `source` for `processor`, as -march names it: haswell has AVX2 and fused multiply-add.
std::string assembly_of(const std::string& source, const std::string& processor = "haswell") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("hydrac-vectorize-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "loop.cpp") << source;
  const std::string templates = hydrac::test::source_dir() + "/templates";
  const std::string command = std::string(HYDRAC_CXX) + " -std=c++20 -O3 -march=" + processor +
                              " -fopenmp-simd -ffp-contract=off -fno-math-errno -fno-trapping-math "
                              "-fno-asynchronous-unwind-tables -S -I " +
                              templates + " -I " + templates + "/include -o " + (folder / "loop.s").string() +
                              " " + (folder / "loop.cpp").string();
  const int status = std::system(command.c_str());
  EXPECT_EQ(status, 0) << command;
  std::stringstream text;
  text << std::ifstream(folder / "loop.s").rdbuf();
  std::filesystem::remove_all(folder);
  return text.str();
}

int count(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

#if defined(__x86_64__)
constexpr bool kReadsThisAssembly = true;
#else
constexpr bool kReadsThisAssembly = false;
#endif

class Vectorize : public ::testing::TestWithParam<const char*> {
  void SetUp() override {
    if (!kReadsThisAssembly) {
      std::puts("SKIPPED: this test reads x86-64 assembly only");
      GTEST_SKIP();
    }
  }
};

TEST_P(Vectorize, FunctionHasNoCallAndNoScalarArithmeticInASimdLoop) {
  const std::string text = assembly_of(std::string("#include \"hydrac/math.h\"\n") +
                                       "void loop(const float* __restrict x, float* __restrict y) {\n"
                                       "#pragma omp simd\n"
                                       "  for (int i = 0; i < 1024; ++i) y[i] = hydrac::" +
                                       GetParam() + "(x[i]);\n}\n");
  EXPECT_EQ(count(text, R"(\n\s+(call|jmp\s+_))"), 0) << text;
  EXPECT_EQ(count(text, R"(\n\s+v(add|sub|mul|div|sqrt|fn?m\w+)ss\s)"), 0) << text;
  EXPECT_GT(count(text, R"(\n\s+v(add|sub|mul|div|sqrt|fn?m\w+)ps\s[^\n]*%ymm)"), 0) << text;
}

INSTANTIATE_TEST_SUITE_P(Math, Vectorize,
                         ::testing::Values("exp", "expm1", "log", "log1p", "rsqrt", "tanh", "erf", "sigmoid",
                                           "sin", "cos"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(Vectorize, CodesOfEightBitsHaveNoScalarArithmeticInASimdLoop) {
  const std::string text = assembly_of(
      "#include \"hydrac/dynamic_code.h\"\n"
      "void loop(unsigned char* __restrict codes, float before, float after) {\n"
      "#pragma omp simd\n"
      "  for (int i = 0; i < 1024; ++i)\n"
      "    codes[i] = static_cast<unsigned char>(\n"
      "        hydrac::signed_dynamic_code(hydrac::signed_dynamic_value(codes[i]) * before * after));\n}\n");
  EXPECT_EQ(count(text, R"(\n\s+v(add|sub|fn?m\w+)ss\s)"), 0) << text;
  EXPECT_GT(count(text, R"(\n\s+v(add|sub|mul|fn?m\w+)ps\s[^\n]*%ymm)"), 0) << text;
}

struct Processor {
  const char *name, *registers;
  int rows_times_vectors;  // of a block: as many sums as registers allow
};

class VectorizeTile : public ::testing::TestWithParam<Processor> {};

TEST_P(VectorizeTile, MatmulKeepsItsSumsInRegisters) {
  if (!kReadsThisAssembly) {
    std::puts("SKIPPED: this test reads x86-64 assembly only");
    GTEST_SKIP();
  }
  const auto& [name, registers, sums] = GetParam();
  const std::string text = assembly_of(
      "#include \"cpu/tile.h\"\n"
      "using namespace hydrac::simd;\n"
      "void matmul(long depth, Left a, const float* b, long b_stride, float* c, long c_stride) {\n"
      "  matmul_block<kLanes, kRowsAtOnce, kVectorsAtOnce>(Start::add, depth, a, b, b_stride, c, c_stride, "
      "nullptr);\n"
      "}\n",
      name);
  // One instruction a sum and step (the loop may be there twice, for sums that start at zero), and as many
  // stores as sums: nothing is spilled.
  const auto lines = [&](const std::string& pattern) {
    return count(text, std::regex_replace(pattern, std::regex("REGISTER"), registers).c_str());
  };
  const int multiplications = lines(R"(\n\s+vfmadd\w+ps\s[^\n]*%REGISTER)");
  EXPECT_TRUE(multiplications == sums || multiplications == 2 * sums) << text;
  EXPECT_EQ(lines(R"(\n\s+vmov[au]ps\s+%REGISTER\d+, [^\n]*\()"), sums) << text;
  EXPECT_EQ(lines(R"(\n\s+vfmadd\w+ss\s)"), 0) << text;
}

INSTANTIATE_TEST_SUITE_P(X86, VectorizeTile,
                         ::testing::Values(Processor{"haswell", "ymm", 4 * 2},
                                           Processor{"skylake-avx512", "zmm", 6 * 4}),
                         [](const auto& info) { return std::string(info.param.registers); });

}  // namespace
