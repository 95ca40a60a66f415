// Specializing templates for several entries: what they share, and what each has for itself.
#include <gtest/gtest.h>

#include "specialize/format.h"
#include "specialize/specialize.h"
#include "tests/unit/specialize/small_templates.h"

namespace hydrac::specialize {
namespace {

using test::request;

// What two entries share and what each has for itself, formatted.
struct Both {
  std::string shared, first, second;
};

Both specialized_together(const std::string& header, const std::string& first, const std::string& second) {
  SpecializeRequest both = request(header, first);
  both.entries.push_back({"other.cu", "#include \"lib.h\"\n" + second});
  const Specialized parts = specialize(both);
  return {formatted(parts.shared), formatted(parts.entries.at(0).own), formatted(parts.entries.at(1).own)};
}

TEST(Specialize, EntriesShareWhatIsTheSameForThem) {
  const Both both = specialized_together(
      "// Doubles.\ntemplate <int width>\n__device__ int twice(int x) {\n  return 2 * x + width;\n}\n"
      "template <int width>\n__device__ int f(int x) {\n  return twice<width>(x) + 1;\n}\n"
      "template <int width>\n__device__ int g(int x) {\n  return twice<width>(x) + 2;\n}\n",
      "__global__ void k(int* x) { x[0] = hydrac::cuda::f<8>(3); }\n",
      "__global__ void l(int* x) { x[0] = hydrac::cuda::g<8>(3); }\n");
  EXPECT_EQ(both.shared,
            "constexpr int kWidth = 8;\n\n// Doubles.\ninline __device__ int twice(int x) {\n"
            "  return 2 * x + kWidth;\n}\n");
  EXPECT_EQ(both.first, "inline __device__ int f(int x) {\n  return twice(x) + 1;\n}\n");
  EXPECT_EQ(both.second, "inline __device__ int g(int x) {\n  return twice(x) + 2;\n}\n");
}

TEST(Specialize, OfADeclarationWithSeveralNamesThoseThatNoEntryUsesGo) {
  const Both both = specialized_together(
      "struct Sizes {\n  static constexpr int rows = 3, columns = 4, depth = 5, taps = 6;\n};\n"
      "template <int width>\n__device__ int f() {\n  return width * Sizes::rows;\n}\n"
      "template <int width>\n__device__ int g() {\n  return width * Sizes::depth;\n}\n",
      "__global__ void k(int* x) { x[0] = hydrac::cuda::f<8>(); }\n",
      "__global__ void l(int* x) { x[0] = hydrac::cuda::g<9>(); }\n");
  EXPECT_EQ(both.shared, "struct Sizes {\n  static constexpr int rows = 3, depth = 5;\n};\n");
  EXPECT_NE(both.first.find("kWidth = 8"), std::string::npos) << both.first;
  EXPECT_NE(both.second.find("kWidth = 9"), std::string::npos) << both.second;
}

TEST(Specialize, ANumberThatEntriesHaveOtherValuesForStaysAParameter) {
  const Both both = specialized_together(
      "template <int width, bool twice>\n__device__ int f(int x) {\n  return twice ? 2 * x : x + width;\n}\n",
      "__global__ void k(int* x) { x[0] = hydrac::cuda::f<8, false>(3); }\n",
      "__global__ void l(int* x) { x[0] = hydrac::cuda::f<9, false>(3); }\n");
  EXPECT_EQ(both.shared, "template <int width>\n__device__ int f(int x) {\n  return x + width;\n}\n");
  EXPECT_EQ(both.first + both.second, "");
}

constexpr char kConfigured[] =
    "struct Tile {\n  int rows;\n  int columns;\n};\n"
    "template <Tile tile_, bool causal_>\nstruct Config {\n  static constexpr Tile tile = tile_;\n"
    "  static constexpr int depth = 2 * tile.columns;\n  static constexpr bool causal = causal_;\n};\n"
    "template <class Config>\n__device__ int rows(int x) {\n  if constexpr (Config::causal) x += 1;\n"
    "  return x % Config::tile.rows + Config::depth;\n}\n"
    "template <class Config>\n__device__ int f(int x) {\n  return rows<Config>(x) + 1;\n}\n"
    "template <class Config>\n__device__ int g(int x) {\n  return rows<Config>(x) + 2;\n}\n";

std::string configured_entry(const std::string& kernel, const std::string& function, int rows) {
  return fmt::format(
      "__global__ void {}(int* x) {{\n"
      "  using Config = hydrac::cuda::Config<hydrac::cuda::Tile{{.rows = {}, .columns = 4}}, "
      "/*causal=*/true>;\n"
      "  x[0] = hydrac::cuda::{}<Config>(3);\n}}\n",
      kernel, rows, function);
}

TEST(Specialize, WhatATypeMakesDifferentIsEachOfTwoKernelsOwnWithAllThatNamesIt) {
  const Both both =
      specialized_together(kConfigured, configured_entry("k", "f", 8), configured_entry("l", "g", 9));
  EXPECT_EQ(both.shared, "constexpr int kDepth = 8;\n");
  const std::string rows =
      "namespace {\n\ninline __device__ int rows(int x) {\n  x += 1;\n  return x % kRows + kDepth;\n}\n";
  EXPECT_EQ(both.first,
            "constexpr int kRows = 8;\n\n" + rows +
                "inline __device__ int f(int x) {\n  return rows(x) + 1;\n}\n\n}  // namespace\n");
  EXPECT_EQ(both.second,
            "constexpr int kRows = 9;\n\n" + rows +
                "\ninline __device__ int g(int x) {\n  return rows(x) + 2;\n}\n\n}  // namespace\n");
}

TEST(Specialize, AClassThatIsEachOfTwoKernelsOwnIsDeclaredWithIt) {
  const std::string header =
      std::string(kConfigured) +
      "template <class Config>\nstruct Shared;\ntemplate <class Config>\nusing SharedOf = Shared<Config>;\n"
      "template <class Config>\nstruct Shared {\n  int x[Config::tile.rows];\n};\n"
      "template <class Config>\n__device__ int size(int) {\n  return sizeof(SharedOf<Config>);\n}\n"
      "template <class Config>\n__device__ int bits(int) {\n  return 8 * sizeof(SharedOf<Config>);\n}\n";
  const Both both =
      specialized_together(header, configured_entry("k", "size", 8), configured_entry("l", "bits", 9));
  EXPECT_EQ(both.shared, "");
  const std::string shared =
      "struct Shared;\nusing SharedOf = Shared;\nstruct Shared {\n  int x[kRows];\n};\n";
  EXPECT_NE(both.first.find("namespace {\n\n" + shared), std::string::npos) << both.first;
  EXPECT_NE(both.second.find("namespace {\n\n" + shared), std::string::npos) << both.second;
}

TEST(Specialize, WhatVariantsOfOneKernelDifferInStaysAParameter) {
  SpecializeRequest variants = request(kConfigured, configured_entry("k", "f", 8));
  variants.entries.push_back({"other.cu", "#include \"lib.h\"\n" + configured_entry("l", "f", 9)});
  const Specialized parts = specialize(variants);
  EXPECT_EQ(formatted(parts.shared),
            "constexpr int kDepth = 8;\n\nstruct Tile {\n  int rows;\n  int columns;\n};\n"
            "template <Tile tile_>\nstruct Config {\n  static constexpr Tile tile = tile_;\n};\n"
            "template <class Config>\n__device__ int rows(int x) {\n  x += 1;\n"
            "  return x % Config::tile.rows + kDepth;\n}\n"
            "template <class Config>\n__device__ int f(int x) {\n  return rows<Config>(x) + 1;\n}\n");
  EXPECT_EQ(formatted(parts.entries.at(0).own + parts.entries.at(1).own), "");
  EXPECT_EQ(formatted(parts.entries.at(1).text),
            "__global__ void l(int* x) {\n"
            "  using Config = hydrac::made::Config<hydrac::made::Tile{.rows = 9, .columns = 4}>;\n"
            "  x[0] = hydrac::made::f<Config>(3);\n}\n");
}

// What only one of the variants reaches must not take its own values for those of all.
TEST(Specialize, AVariantsOwnPathNamesWhatVaries) {
  const std::string header =
      "template <int rows_, bool adds_>\nstruct Config {\n  static constexpr int rows = rows_;\n"
      "  static constexpr bool adds = adds_;\n};\n"
      "template <class Config>\nstruct Sum {\n  int at;\n"
      "  template <int width>\n  __device__ void add() {\n    at += width * Config::rows;\n  }\n};\n"
      "template <class Config>\n__device__ int f(int x) {\n  Sum<Config> sum{x};\n"
      "  if constexpr (Config::adds && Config::rows > 1) {\n    sum.template add<3>();\n  }\n"
      "  return sum.at % Config::rows;\n}\n";
  const Both both = specialized_together(
      header, "__global__ void k(int* x) { x[0] = hydrac::cuda::f<hydrac::cuda::Config<8, true>>(3); }\n",
      "__global__ void l(int* x) { x[0] = hydrac::cuda::f<hydrac::cuda::Config<9, false>>(3); }\n");
  EXPECT_NE(both.shared.find("  __device__ void add() { at += kWidth * Config::rows; }\n"), std::string::npos)
      << both.shared;
  EXPECT_NE(both.shared.find("  if constexpr (Config::adds) {\n    sum.add();\n"), std::string::npos)
      << both.shared;
}

// Each of them alone would lose the parentheses with the choice.
TEST(Specialize, AChoiceThatVariantsMakeDifferentlyKeepsItsParentheses) {
  const Both both = specialized_together(
      "template <bool drops>\n__device__ float f(float x) {\n  return (drops ? 1.25f : 1.0f) / x;\n}\n",
      "__global__ void k(float* x) { x[0] = hydrac::cuda::f<true>(3); }\n",
      "__global__ void l(float* x) { x[0] = hydrac::cuda::f<false>(3); }\n");
  EXPECT_EQ(
      both.shared,
      "template <bool drops>\n__device__ float f(float x) {\n  return (drops ? 1.25f : 1.0f) / x;\n}\n");
}

}  // namespace
}  // namespace hydrac::specialize
