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

// The assembly of `source` for a processor with AVX2 and fused multiply-add.
std::string assembly_of(const std::string& source) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("hydrac-vectorize-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "loop.cpp") << source;
  const std::string templates = hydrac::test::source_dir() + "/templates";
  const std::string command = std::string(HYDRAC_CXX) +
                              " -std=c++20 -O3 -march=haswell -fopenmp-simd -ffp-contract=off -fno-math-errno"
                              " -fno-trapping-math -fno-asynchronous-unwind-tables -S -I " +
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

// With AVX2's 16 registers.
constexpr int kRowsTimesVectors = 4 * 2;

TEST(VectorizeTile, MatmulKeepsItsSumsInRegisters) {
  if (!kReadsThisAssembly) {
    std::puts("SKIPPED: this test reads x86-64 assembly only");
    GTEST_SKIP();
  }
  const std::string text = assembly_of(
      "#include \"cpu/tile.h\"\n"
      "using namespace hydrac::cpu::detail;\n"
      "void matmul(long depth, Left a, const float* b, long b_stride, float* c, long c_stride) {\n"
      "  matmul_block<Start::add, kLanes, kRowsAtOnce, kVectorsAtOnce>(depth, a, b, b_stride, c, c_stride, "
      "nullptr);\n"
      "}\n");
  // One instruction a sum and step, and as many stores as sums: nothing is spilled.
  EXPECT_EQ(count(text, R"(\n\s+vfmadd\w+ps\s[^\n]*%ymm)"), kRowsTimesVectors) << text;
  EXPECT_EQ(count(text, R"(\n\s+vmov[au]ps\s+%ymm\d+, [^\n]*\()"), kRowsTimesVectors) << text;
}

}  // namespace
