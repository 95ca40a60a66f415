// Specializing small templates: what is bound, pruned, dropped and kept, by the whole text that comes out.
#include "specialize/specialize.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/specialize/small_templates.h"

namespace hydrac::specialize {
namespace {

using test::request;
using test::specialized;

TEST(Specialize, AParameterBecomesANamedConstant) {
  EXPECT_EQ(
      specialized(
          "// Adds the columns.\ntemplate <int head_dim>\n__device__ float sum(const float* x) {\n"
          "  float s = 0;\n  for (int i = 0; i < head_dim; ++i) s += x[i];  // in order\n  return s;\n}\n",
          "__global__ void k(float* x) { x[0] = hydrac::cuda::sum<64>(x); }\n"),
      "constexpr int kHeadDim = 64;\n\n"
      "// Adds the columns.\ninline __device__ float sum(const float* x) {\n"
      "  float s = 0;\n  for (int i = 0; i < kHeadDim; ++i) s += x[i];  // in order\n  return s;\n}\n\n"
      "__global__ void k(float* x) {\n  x[0] = hydrac::made::sum(x);\n}\n");
}

TEST(Specialize, AParameterThatVariesStays) {
  EXPECT_EQ(
      specialized(
          "template <int step, bool twice>\n__device__ int f(int x) {\n"
          "  return twice ? 2 * x + step : x;\n}\n",
          "__global__ void k(int* x) { x[0] = hydrac::cuda::f<1, true>(hydrac::cuda::f<2, true>(3)); }\n"),
      "template <int step>\n__device__ int f(int x) {\n  return 2 * x + step;\n}\n\n"
      "__global__ void k(int* x) {\n  x[0] = hydrac::made::f<1>(hydrac::made::f<2>(3));\n}\n");
}

TEST(Specialize, WhatVariesKeepsItsParentheses) {
  EXPECT_EQ(
      specialized("template <bool twice>\n__device__ int f(int x) {\n"
                  "  return x * (twice ? 2 : 3) * (twice + 1);\n}\n",
                  "__global__ void k(int* x) { x[0] = hydrac::cuda::f<true>(hydrac::cuda::f<false>(3)); }\n"),
      "template <bool twice>\n__device__ int f(int x) {\n  return x * (twice ? 2 : 3) * (twice + 1);\n}\n\n"
      "__global__ void k(int* x) {\n  x[0] = hydrac::made::f<true>(hydrac::made::f<false>(3));\n}\n");
}

TEST(Specialize, DeadBranchesGoWithTheirComments) {
  EXPECT_EQ(specialized("template <bool a, bool b>\n__device__ int f(int x) {\n"
                        "  if constexpr (a) {\n    // The a way.\n    x += 1;\n  } else if constexpr (b) {\n"
                        "    // The b way.\n    x += 2;\n  } else {\n    x += 3;\n  }\n"
                        "  // Only with a.\n  if constexpr (a) x *= 2;\n  if (b && x > 3) x = 3;\n  return a "
                        "|| x > 2 ? x : 0;\n}\n",
                        "__global__ void k(int* x) { x[0] = hydrac::cuda::f<false, true>(1); }\n"),
            "inline __device__ int f(int x) {\n  // The b way.\n  x += 2;\n  if (x > 3) x = 3;\n  return x > "
            "2 ? x : 0;\n}\n\n"
            "__global__ void k(int* x) {\n  x[0] = hydrac::made::f(1);\n}\n");
}

TEST(Specialize, ABranchThatDeclaresVariablesKeepsItsBracesOnlyWhereNamesWouldClash) {
  EXPECT_EQ(
      specialized(
          "template <bool a>\n__device__ int f(int x) {\n"
          "  if constexpr (a) {\n    const int y = x + 1;\n    x = y * y;\n  }\n"
          "  if constexpr (a) {\n    int z = x;\n    x += z;\n  }\n  const int z = 2;\n  return x * z;\n}\n",
          "__global__ void k(int* x) { x[0] = hydrac::cuda::f<true>(1); }\n"),
      "inline __device__ int f(int x) {\n  const int y = x + 1;\n  x = y * y;\n  {\n    int z = x;\n    x += "
      "z;\n  }\n"
      "  const int z = 2;\n  return x * z;\n}\n\n"
      "__global__ void k(int* x) {\n  x[0] = hydrac::made::f(1);\n}\n");
}

TEST(Specialize, HelpersThatNothingUsesGo) {
  EXPECT_EQ(specialized(
                "// Not used.\n__device__ inline int a(int x) { return x; }\n"
                "// Used in a branch that goes.\n__device__ inline int b(int x) { return x; }\n"
                "struct Pair {\n  int x;\n  // Kept.\n  __device__ int sum() const { return x; }\n"
                "  // Goes.\n  __device__ int other() const { return 2; }\n};\n"
                "template <bool uses_b>\n__device__ int f(Pair p) {\n  if constexpr (uses_b) return b(p.x);\n"
                "  return p.sum();\n}\n",
                "__global__ void k(int* x) { x[0] = hydrac::cuda::f<false>({1}); }\n"),
            "struct Pair {\n  int x;\n  // Kept.\n  __device__ int sum() const { return x; }\n};\n"
            "inline __device__ int f(Pair p) {\n  return p.sum();\n}\n\n"
            "__global__ void k(int* x) {\n  x[0] = hydrac::made::f({1});\n}\n");
}

// Only what is used stays of a declaration of several things, with the comments that are about it.
TEST(Specialize, OfADeclarationWithSeveralNamesThoseThatAreUsedStay) {
  const auto with = [](const std::string& used) {
    return specialized(
        "struct Sizes {\n  // In elements.\n  static constexpr int rows = 3,  // down, or deep\n"
        "                       columns = 4,  // across\n                       depth = 5;  // k\n};\n"
        "__device__ inline int f() { return " +
            used + "; }\n",
        "__global__ void k(int* x) { x[0] = hydrac::cuda::f(); }\n");
  };
  const auto text = [](const std::string& declaration, const std::string& used) {
    return "struct Sizes {\n  // In elements.\n  static constexpr int " + declaration +
           "\n};\n__device__ inline int f() {\n  return " + used +
           ";\n}\n\n__global__ void k(int* x) {\n  x[0] = hydrac::made::f();\n}\n";
  };
  for (const auto& [used, declaration] :
       {std::pair("Sizes::rows", "rows = 3;  // down, or deep"),
        {"Sizes::columns", "columns = 4;  // across"},
        {"Sizes::depth", "depth = 5;  // k"},
        {"Sizes::rows + Sizes::depth",
         "rows = 3,  // down, or deep\n      depth = 5;                  // k"}}) {
    EXPECT_EQ(with(used), text(declaration, used));
  }
}

TEST(Specialize, PointersThatAreDeclaredTogetherStayPointers) {
  EXPECT_EQ(specialized("struct Ends {\n  static constexpr const int *first = nullptr, *last = nullptr;\n};\n"
                        "constexpr int kStep = 1, kTwice = 2;\n"
                        "__device__ inline bool f(const int* x) {\n"
                        "  constexpr int step = kTwice, unused = 1;\n  return x + step == Ends::last;\n}\n",
                        "__global__ void k(bool* x) { x[0] = hydrac::cuda::f(nullptr); }\n"),
            "struct Ends {\n  static constexpr const int* last = nullptr;\n};\nconstexpr int kTwice = 2;\n"
            "__device__ inline bool f(const int* x) {\n  constexpr int step = kTwice;\n"
            "  return x + step == Ends::last;\n}\n\n"
            "__global__ void k(bool* x) {\n  x[0] = hydrac::made::f(nullptr);\n}\n");
}

TEST(Specialize, AClassThatIsNamedBeforeItsDefinitionStaysDeclared) {
  EXPECT_EQ(specialized("// Not needed: what follows defines it.\nstruct Late;\n"
                        "struct Late {\n  int i;\n};\n"
                        "// The sums of a block.\ntemplate <class T, int n>\nstruct Shared;\n"
                        "template <class T>\nstruct View {\n  struct Place;\n  Shared<T, 3>* shared;\n"
                        "  Place* place;\n  struct Place {\n    int at;\n  };\n};\n"
                        "template <class Type, int count>\nstruct Shared {\n  Type x[count];\n};\n"
                        "template <class T>\n__device__ T f(const View<T>& view, Late late) {\n"
                        "  return view.shared->x[view.place->at + late.i];\n}\n",
                        "__global__ void k(float* x) { x[0] = hydrac::cuda::f<float>({}, {}); }\n"),
            "struct Late {\n  int i;\n};\n// The sums of a block.\nstruct Shared;\n"
            "struct View {\n  struct Place;\n  Shared* shared;\n  Place* place;\n  struct Place {\n"
            "    int at;\n  };\n};\nstruct Shared {\n  float x[3];\n};\n"
            "inline __device__ float f(const View& view, Late late) {\n"
            "  return view.shared->x[view.place->at + late.i];\n}\n\n"
            "__global__ void k(float* x) {\n  x[0] = hydrac::made::f({}, {});\n}\n");
}

TEST(Specialize, OfAClassThatIsDeclaredFirstWhatVariesStaysAParameterWithItsDefault) {
  const std::string text = specialized(
      "template <class T, int n, int step = 2>\nstruct Sum;\n"
      "template <class T>\nusing SumOf = Sum<T, 3>;\n"
      "template <class T, int n, int step>\nstruct Sum {\n  T x[n];\n"
      "  __device__ T get() const { return x[step]; }\n};\n",
      "__global__ void k(float* x) {\n"
      "  x[0] = hydrac::cuda::SumOf<float>{}.get() + hydrac::cuda::Sum<float, 3, 1>{}.get();\n}\n");
  EXPECT_NE(text.find("template <int step = 2>\nstruct Sum;\nusing SumOf = Sum<>;\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("template <int step>\nstruct Sum {\n  float x[3];"), std::string::npos) << text;
}

TEST(Specialize, AFriendIsRefusedWithItsPlace) {
  try {
    specialized(
        "template <class T>\nclass Value {\n  friend struct Reader;\n  T x = 3;\n};\n"
        "struct Reader {\n  template <class T>\n  __device__ static T read(const Value<T>& value) {\n"
        "    return value.x;\n  }\n};\n",
        "__global__ void k(int* x) { x[0] = hydrac::cuda::Reader::read(hydrac::cuda::Value<int>{}); }\n");
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "lib.h:5: specialized code cannot have friends: make public what they need");
  }
}

TEST(Specialize, PolicyClassesAndTraitsBecomeTheTypesAndNumbersTheyStandFor) {
  EXPECT_EQ(
      specialized(
          "template <class T, int n>\nstruct Config {\n  using Storage = T;\n"
          "  static constexpr int rows = 2 * n;\n};\n"
          "template <class C>\nstruct Sum {\n  using Storage = typename C::Storage;\n  Storage at[C::rows];\n"
          "  template <int k>\n  __device__ Storage get() const { return at[k % C::rows]; }\n};\n",
          "__global__ void k(float* x) {\n  using C = hydrac::cuda::Config<float, 8>;\n"
          "  hydrac::cuda::Sum<C> s{};\n  x[0] = s.get<3>() + s.get<4>();\n}\n"),
      "constexpr int kRows = 16;\n\nstruct Sum {\n  float at[kRows];\n  template <int k>\n"
      "  __device__ float get() const {\n    return at[k % kRows];\n  }\n};\n\n"
      "__global__ void k(float* x) {\n  hydrac::made::Sum s{};\n  x[0] = s.get<3>() + s.get<4>();\n}\n");
}

TEST(Specialize, CallsOfFunctionsThatDoNothingGo) {
  EXPECT_EQ(specialized("struct Plain {\n  __device__ static void wait(int) {}\n};\n"
                        "template <class P>\n__device__ void f(int* x) {\n  x[0] = 1;\n  P::wait(x[1]);  // "
                        "why\n  x[0] = 2;\n}\n",
                        "__global__ void k(int* x) { hydrac::cuda::f<hydrac::cuda::Plain>(x); }\n"),
            "inline __device__ void f(int* x) {\n  x[0] = 1;\n  x[0] = 2;\n}\n\n"
            "__global__ void k(int* x) {\n  hydrac::made::f(x);\n}\n");
}

TEST(Specialize, CodeForOtherArchitecturesGoes) {
  SpecializeRequest wanted = request(
      "__device__ inline int f() {\n#if __CUDA_ARCH__ >= 800\n  return 80;  // new\n#else\n"
      "  return 75;  // old\n#endif\n}\n",
      "__global__ void k(int* x) { x[0] = hydrac::cuda::f(); }\n");
  wanted.capability = 75;
  EXPECT_NE(test::whole_text(wanted).find("inline int f() {\n  return 75;  // old\n}\n"), std::string::npos);
  wanted.capability = 80;
  EXPECT_NE(test::whole_text(wanted).find("inline int f() {\n  return 80;  // new\n}\n"), std::string::npos);
}

TEST(Specialize, MacrosOfTheTemplatesAreWrittenOut) {
  EXPECT_EQ(specialized("// c += a.\n#define ADD(N, A) asm(\"add.\" #N \" %0, %0, %\" A \";\" : \"+r\"(c[N + "
                        "1]) : \"r\"(a))\n"
                        "__device__ inline void f(int (&c)[4], int a) {\n  ADD(2, \"1\");\n}\n#undef ADD\n",
                        "__global__ void k(int* x) {\n  int c[4];\n  hydrac::cuda::f(c, *x);\n}\n"),
            "__device__ inline void f(int (&c)[4], int a) {\n  // c += a.\n"
            "  asm(\"add.2 %0, %0, %1;\" : \"+r\"(c[3]) : \"r\"(a));\n}\n\n"
            "__global__ void k(int* x) {\n  int c[4];\n  hydrac::made::f(c, *x);\n}\n");
}

TEST(Specialize, CppKeepsWhatDependsOnTheProcessor) {
  EXPECT_EQ(
      specialized(
          "// Floats in a vector.\n#if defined(__AVX512F__)\nconstexpr int kLanes = 16;\n#elif "
          "defined(__AVX__)\n"
          "constexpr int kLanes = 8;\n#else\nconstexpr int kLanes = 4;\n#endif\n"
          "template <int width, int lanes>\ninline int steps() {\n  if constexpr (lanes > 8) return 1;\n"
          "  return width / lanes;\n}\n",
          "int k() { return hydrac::cuda::steps<64, hydrac::cuda::kLanes>(); }\n", Dialect::cpp),
      "constexpr int kWidth = 64;\n\n"
      "// Floats in a vector.\n#if defined(__AVX512F__)\nconstexpr int kLanes = 16;\n#elif defined(__AVX__)\n"
      "constexpr int kLanes = 8;\n#else\nconstexpr int kLanes = 4;\n#endif\n\n"
      "template <int lanes>\ninline int steps() {\n  if constexpr (lanes > 8) return 1;\n"
      "  return kWidth / lanes;\n}\n\n"
      "int k() {\n  return hydrac::made::steps<hydrac::made::kLanes>();\n}\n");
}

TEST(Specialize, NamesOfConstantsThatAreTakenAreMadeLonger) {
  const std::string text = specialized(
      "constexpr int kRows = 3;\ntemplate <int rows>\n__device__ int f() {\n  return rows * kRows;\n}\n",
      "__global__ void k(int* x) { x[0] = hydrac::cuda::f<7>(); }\n");
  EXPECT_NE(text.find("constexpr int kFRows = 7;\n"), std::string::npos) << text;
  EXPECT_NE(text.find("return kFRows * kRows;"), std::string::npos) << text;
}

TEST(Specialize, ACastToTheTypeThatIsThereGoes) {
  EXPECT_EQ(specialized("template <class T>\n__device__ int f(T x) {\n"
                        "  return static_cast<int>(x) + static_cast<int>(x + 1) * 2;\n}\n",
                        "__global__ void k(int* x) { x[0] = hydrac::cuda::f<int>(x[1]); }\n"),
            "inline __device__ int f(int x) {\n  return x + (x + 1) * 2;\n}\n\n"
            "__global__ void k(int* x) {\n  x[0] = hydrac::made::f(x[1]);\n}\n");
}

// An alias of a library's type says in one word what all uses would have to spell.
TEST(Specialize, AnAliasOfALibrarysTemplateStays) {
  SpecializeRequest wanted = request(
      "template <int n>\n__device__ int f() {\n  using Two = Pair<n>;\n  return Two::first() + "
      "Two::first();\n}\n",
      "__global__ void k(int* x) { x[0] = hydrac::cuda::f<7>(); }\n");
  wanted.headers[0].text = "#include \"pair.h\"\n" + wanted.headers[0].text;
  wanted.headers.push_back({"pair.h",
                            "#pragma once\nnamespace hydrac {\ntemplate <int n>\nstruct Pair {\n"
                            "  static __device__ int first() { return n; }\n};\n}\n"});
  wanted.library = {"pair.h"};
  const std::string text = test::whole_text(wanted);
  EXPECT_NE(text.find("  using Two = Pair<7>;\n  return Two::first() + Two::first();\n"), std::string::npos)
      << text;
}

TEST(Specialize, ABranchBehindAnElseThatStaysIsABlock) {
  const Both both = specialized_together(
      "template <int width, bool twice>\n__device__ int f(int x) {\n  if constexpr (width == 8 && twice) {\n"
      "    x += 1;\n  } else if constexpr (twice) {\n    x *= 2;\n    x += 3;\n  } else {\n    x = 0;\n  }\n"
      "  return x;\n}\n",
      "__global__ void k(int* x) { x[0] = hydrac::cuda::f<8, true>(3); }\n",
      "__global__ void l(int* x) { x[0] = hydrac::cuda::f<9, true>(3); }\n");
  EXPECT_EQ(both.shared,
            "template <int width>\n__device__ int f(int x) {\n  if constexpr (width == 8) {\n    x += 1;\n"
            "  } else {\n    x *= 2;\n    x += 3;\n  }\n  return x;\n}\n");
}

TEST(Specialize, ParametersThatNothingReadsGoWithTheirArguments) {
  EXPECT_EQ(specialized(
                "struct Dropout {\n  int key;\n};\ntemplate <bool drops>\n__device__ int f(int x, const "
                "Dropout& dropout, int y) {\n  if constexpr (drops) x += dropout.key;\n  return x * y;\n}\n",
                "__global__ void k(int* x) {\n  constexpr hydrac::cuda::Dropout dropout{3};\n"
                "  x[0] = hydrac::cuda::f<false>(1, dropout, 2);\n}\n"),
            "inline __device__ int f(int x, int y) {\n  return x * y;\n}\n\n"
            "__global__ void k(int* x) {\n  x[0] = hydrac::made::f(1, 2);\n}\n");
}

// Its lambda makes the call depend on the parameter that stays.
TEST(Specialize, ParametersThatNothingReadsGoFromCallsInTemplates) {
  const Both both = specialized_together(
      "template <class Visit>\n__device__ int each(int unread, int x, Visit visit) {\n  return visit(x);\n}\n"
      "template <bool twice>\n__device__ int f(int x) {\n"
      "  return each(x, 2, [&](int y) {\n    if constexpr (twice) y *= 2;\n    return y;\n  });\n}\n",
      "__global__ void k(int* x) { x[0] = hydrac::cuda::f<true>(3); }\n",
      "__global__ void l(int* x) { x[0] = hydrac::cuda::f<false>(3); }\n");
  EXPECT_NE(both.shared.find("int each(int x, Visit visit)"), std::string::npos) << both.shared;
  EXPECT_NE(both.shared.find("each(2, [&](int y)"), std::string::npos) << both.shared;
}

TEST(Specialize, LibraryHeadersStayIncludes) {
  SpecializeRequest wanted = request("template <int n>\n__device__ int f() {\n  return n + two();\n}\n",
                                     "__global__ void k(int* x) { x[0] = hydrac::cuda::f<7>(); }\n");
  wanted.headers[0].text = "#include \"two.h\"\n#include \"three.h\"\n" + wanted.headers[0].text;
  wanted.headers.push_back(
      {"two.h", "#pragma once\nnamespace hydrac {\n__device__ inline int two() { return 2; }\n}\n"});
  wanted.headers.push_back({"three.h", "#pragma once\n"});
  wanted.library = {"two.h", "three.h"};
  const std::string text = test::whole_text(wanted);
  EXPECT_EQ(text.find("#include \"two.h\"\n"), 0u) << text;
  EXPECT_EQ(text.find("three.h"), std::string::npos) << text;
  EXPECT_EQ(formatted(text), text);
}

TEST(Specialize, AnEntryThatDoesNotParseIsRefusedWithItsPlaces) {
  try {
    specialize(request("", "__global__ void k(int* x) { x[0] = missing; }\n"));
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(
        error.what(),
        "templates do not parse with entry.cu:\n  entry.cu:2:36: use of undeclared identifier 'missing'");
  }
}

}  // namespace
}  // namespace hydrac::specialize
