// What cannot be lifted: every message, whole, at its place, all of a file at once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "specialize/lift/lift_function.h"
#include "tests/unit/specialize/wanted.h"

namespace hydrac::specialize {
namespace {

std::string errors_of(const std::string& text, const WantedFunction& wanted = kActivation,
                      const std::string& name = "f") {
  const LiftedFunction lifted = lift_function("ops/f.h", text, name, wanted);
  EXPECT_EQ(lifted.function.has_value(), lifted.errors.empty());
  std::string all;
  for (const FunctionProblem& p : lifted.errors) {
    all += fmt::format("{}:{}: {}\n", p.line, p.column, p.message);
    if (!p.suggestion.empty()) all += "  " + p.suggestion + "\n";
  }
  return all;
}

// The body of float f(float x), from line 2 on.
std::string in_body(const std::string& statements) {
  return errors_of("#include <cmath>\n" + statements);
}

TEST(Refused, Loops) {
  EXPECT_EQ(
      in_body("float f(float x) {\n"
              "  for (int i = 0; i < 3; ++i) x *= x;\n"
              "  while (x > 1.0f) x -= 1.0f;\n"
              "  do { x += 1.0f; } while (x < 0.0f);\n"
              "  return x;\n}"),
      "3:3: a loop cannot be lifted into an expression\n  write its steps out, or find a closed form\n"
      "4:3: a loop cannot be lifted into an expression\n  write its steps out, or find a closed form\n"
      "5:3: a loop cannot be lifted into an expression\n  write its steps out, or find a closed form\n");
}

TEST(Refused, OtherStatements) {
  EXPECT_EQ(in_body("float f(float x) {\n"
                    "  switch (2) { default: x = 1.0f; }\n"
                    "  try { x = 2.0f; } catch (...) {}\n"
                    "  x * 2.0f;\n"
                    "  asm(\"\");\n"
                    "  again: x = 3.0f;\n"
                    "  if (float y = x) x = y;\n"
                    "  return x;\n}"),
            "3:3: a switch cannot be lifted into an expression\n  write it with if and else\n"
            "4:3: exceptions cannot be lifted into an expression\n"
            "5:3: this statement has no effect that can be lifted into an expression\n  remove it\n"
            "6:3: assembly cannot be lifted into an expression\n"
            "7:3: a goto cannot be lifted into an expression\n  write it with if and else\n"
            "8:3: an if that declares a variable cannot be lifted into an expression\n  declare it before "
            "the if\n");
}

TEST(Refused, PointersArraysClassesLambdas) {
  EXPECT_EQ(in_body("struct S { float a; float get() const { return a; } };\n"
                    "float f(float x) {\n"
                    "  float* p = &x;\n"
                    "  float a[2] = {x, x};\n"
                    "  S s{x};\n"
                    "  auto g = [](float y) { return y; };\n"
                    "  return *p + a[0] + s.a + s.get() + g(x);\n}"),
            "4:10: p is of type float *, and the function computes in float\n"
            "5:9: a is of type float[2], and the function computes in float\n"
            "6:5: s is of type S, and the function computes in float\n"
            "7:8: g is a lambda, and the function computes in float\n"
            "8:10: *p cannot be lifted into an expression\n"
            "8:15: an array cannot be lifted into an expression\n"
            "8:22: a member of a class cannot be lifted into an expression\n"
            "8:28: a call of a class's function cannot be lifted into an expression\n"
            "  make it a function of this file\n"
            "8:38: a call of a class's function cannot be lifted into an expression\n"
            "  make it a function of this file\n");
}

TEST(Refused, VariablesOutside) {
  EXPECT_EQ(
      in_body("float slope = 2.0f;\n"
              "float f(float x) {\n"
              "  static float calls = 0.0f;\n"
              "  calls += 1.0f;\n"
              "  slope = 3.0f;\n"
              "  return x * slope;\n}"),
      "4:16: calls is static: it outlives the call\n  a function's result may depend on its parameters only\n"
      "6:3: only the function's own variables can be assigned to, and slope is none\n"
      "7:14: slope is a variable outside of the function\n"
      "  make it constexpr with its value, or a parameter\n");
}

TEST(Refused, VariablesWithoutAValue) {
  EXPECT_EQ(in_body("float f(float x) {\n"
                    "  float y;\n"
                    "  if (x > 0.0f) y = x;\n"
                    "  return y;\n}"),
            "5:10: y may not have a value here\n  give it one where it is declared\n");
}

TEST(Refused, AWayWithoutReturn) {
  EXPECT_EQ(in_body("float f(float x) {\n"
                    "  if (x > 0.0f) return x;\n"
                    "}"),
            "4:1: the end of f is reached without a return\n  return a value on every way through it\n");
}

TEST(Refused, Recursion) {
  EXPECT_EQ(in_body("float g(float x);\n"
                    "float f(float x) { return x > 1.0f ? g(x - 1.0f) : x; }\n"
                    "float g(float x) { return f(x) * 2.0f; }"),
            "4:27: f calls itself, which cannot be lifted into an expression\n"
            "  write its steps out, or find a closed form\n");
}

TEST(Refused, UnknownCalls) {
  EXPECT_EQ(
      in_body("float elsewhere(float);\n"
              "float by_reference(float& x) { return x; }\n"
              "float (*pointer)(float) = nullptr;\n"
              "float f(float x) {\n"
              "  float y = elsewhere(x) + by_reference(x) + pointer(x);\n"
              "  y += std::atan(x) + erfcf(x);\n"
              "  y += std::fma(x, x, x) + std::pow(x, x);\n"
              "  return y;\n}"),
      "6:13: elsewhere is declared, and its definition is not in this file\n"
      "  a function and what it calls must stand in one file\n"
      "6:28: by_reference takes float &, and the function computes in float\n"
      "6:46: a call through a pointer cannot be lifted into an expression\n  call the function by its name\n"
      "7:8: atan is no function that can be lifted into an expression\n"
      "  there are abs, ceil, clamp, cos, erf, exp, exp2, expm1, fabs, floor, fmax, fmin, log, log10, log1p, "
      "log2, "
      "max, min, pow, sin, sqrt, tan, tanh\n"
      "7:23: erfcf is no function that can be lifted into an expression\n"
      "  there are abs, ceil, clamp, cos, erf, exp, exp2, expm1, fabs, floor, fmax, fmin, log, log10, log1p, "
      "log2, "
      "max, min, pow, sin, sqrt, tan, tanh\n"
      "8:8: fma is no function that can be lifted into an expression\n  write a * b + c\n"
      "8:28: pow can be lifted with a constant exponent, or a constant positive base\n"
      "  write std::exp(y * std::log(x)) where x is positive\n");
}

TEST(Refused, ErrorsInAHelperAreAtTheirOwnPlace) {
  EXPECT_EQ(
      in_body("template <typename T> T twice(T x) { T y = x; while (y < x) y += x; return y; }\n"
              "float f(float x) { return twice(x) + twice(2.0f * x); }"),
      "2:47: a loop cannot be lifted into an expression\n  write its steps out, or find a closed form\n");
}

TEST(Refused, DoubleArithmetic) {
  EXPECT_EQ(in_body("const double k = 1.5;\n"
                    "float f(float x) {\n"
                    "  float y = 2.0 * x + exp(x);\n"
                    "  if (x > 0.5) y = k * x;\n"
                    "  y += 1e-3;\n"
                    "  double z = 1;\n"
                    "  return x < 1 ? static_cast<double>(x) : y;\n}"),
            "4:13: 2.0 is double, and the function computes in float\n  write 2.0f\n"
            "4:23: the result of exp is double, and the function computes in float\n  write std::exp\n"
            "5:11: 0.5 is double, and the function computes in float\n  write 0.5f\n"
            "5:20: k is double, and the function computes in float\n  make it float\n"
            "6:8: 1e-3 is double, and the function computes in float\n  write 1e-3f\n"
            "7:10: z is of type double, and the function computes in float\n  make it float\n"
            "8:18: this is double, and the function computes in float\n  remove the conversion\n");
}

TEST(Refused, FloatsInADoubleFunction) {
  EXPECT_EQ(errors_of("float half(float x) { return 0.5f * x; }\n"
                      "double f(double s, double m) { const float c = 2.0f; return half(s) * c + s / m; }",
                      kCurve),
            "2:61: the result of half is float, and the function computes in double\n"
            "2:71: c is float, and the function computes in double\n  make it double\n");
}

TEST(Refused, Integers) {
  EXPECT_EQ(in_body("float f(float x) {\n"
                    "  int n = x > 0.0f ? 1 : 2;\n"
                    "  const int rounded = static_cast<int>(x);\n"
                    "  return static_cast<float>((int)x) + n + (rounded & 3) + (x > 1.0f | x < 0.0f);\n}"),
            "3:7: n is of type int, and the function computes in float\n  make it float\n"
            "5:34: rounding to an integer cannot be lifted into an expression\n"
            "  it is a step function, which nothing can be learned through\n"
            "5:44: integers that are no constants cannot be lifted into an expression\n  compute in float\n"
            "5:60: integers that are no constants cannot be lifted into an expression\n  compute in float\n");
}

TEST(Refused, MacrosAndWhatHidesThem) {
  const std::string f = "float f(float x) { return x * x; }";
  EXPECT_EQ(
      errors_of("#ifndef F_H\n#define F_H\n#define HD __host__ __device__ inline\nHD " + f + "\n#endif\n"),
      "");
  const std::string macro =
      ": a macro with a body cannot be in a function's file\n  write a constexpr variable or a function\n";
  EXPECT_EQ(errors_of("#define TWO 2.0f\n" + f), "1:1" + macro);
  EXPECT_EQ(errors_of("// #define\n /* */ %: define F(x) x x\n" + f), "2:8" + macro);
  EXPECT_EQ(errors_of("#include \"function.cpp\"\n" + f),
            "1:1: a function's file cannot include other files\n"
            "  it can include <cmath> and <algorithm>; put what it needs into this file\n");
  EXPECT_EQ(errors_of("#def\\\nine A B\n" + f),
            "1:5: a line that goes on in the next one cannot be in a function's file\n  join the two\n");
  EXPECT_EQ(errors_of("const char* s = R\"(/*)\";\n" + f),
            "1:17: a raw string cannot be in a function's file\n");
  EXPECT_EQ(errors_of("constexpr char c = '\\'', d = '\"'; const char* s = \"/* \\\" \"; // \"\n" + f), "");
}

TEST(Refused, References) {
  EXPECT_EQ(in_body("float f(float x) {\n  const float& y = x;\n  return y;\n}"),
            "3:16: y is of type const float &, and the function computes in float\n  make it float\n");
}

TEST(Refused, AssignmentsInsideExpressions) {
  EXPECT_EQ(in_body("float f(float x) {\n"
                    "  float y = x++ + (x = 2.0f);\n"
                    "  return y;\n}"),
            "3:13: an assignment inside an expression cannot be lifted\n  make it a statement of its own\n"
            "3:22: an assignment inside an expression cannot be lifted\n  make it a statement of its own\n");
}

TEST(Refused, StepFunctionsWhereADerivativeIsNeeded) {
  EXPECT_EQ(in_body("float f(float x) { return x * std::floor(x) + ceilf(x); }"),
            "2:31: floor is a step function: its derivative is 0, and nothing can be learned through it\n"
            "2:47: ceilf is a step function: its derivative is 0, and nothing can be learned through it\n");
  EXPECT_EQ(in_body("float f(float x) { return x > 0.0f ? 1.0f : 0.0f; }"),
            "2:15: the derivative of f by x is 0 everywhere: nothing can be learned through it\n");
  EXPECT_EQ(in_body("float f(float gate, float up) { return gate * gate; }"),
            "2:27: the derivative of f by up is 0 everywhere: nothing can be learned through it\n");
}

TEST(Refused, Infinity) {
  EXPECT_EQ(in_body("float f(float x) { return x > 0.0f ? x : 1e30f * 1e30f; }"),
            "2:42: a constant that is infinite or no number cannot be lifted\n");
}

TEST(Refused, WrongSignatures) {
  const std::string wanted = ", and what is wanted is float f(float x) or float f(float gate, float up)\n";
  EXPECT_EQ(errors_of("double f(double x) { return x; }"), "1:8: f is double (double)" + wanted);
  EXPECT_EQ(errors_of("float f(int x) { return x; }"), "1:7: f is float (int)" + wanted);
  EXPECT_EQ(errors_of("float f(float a, float b, float c) { return a; }"),
            "1:7: f is float (float, float, float)" + wanted);
  EXPECT_EQ(errors_of("float f(const float& x) { return x; }"), "1:7: f is float (const float &)" + wanted);
  EXPECT_EQ(errors_of("float f() { return 1.0f; }"), "1:7: f is float (void)" + wanted);
  EXPECT_EQ(errors_of("float f(float s, double m) { return s; }", kCurve),
            "1:7: f is float (float, double), and what is wanted is float f(float step, float max_steps)\n"
            "  all of it may be double instead of float\n");
}

TEST(Refused, FunctionsThatAreNotOne) {
  EXPECT_EQ(errors_of("float f(float x) { return x; }\ndouble f(double x) { return x; }"),
            "2:8: there is more than one function f\n  give them names of their own\n");
  EXPECT_EQ(errors_of("float f(float x);"), "1:7: f is declared, and its definition is not in this file\n");
}

TEST(Refused, FunctionsThatAreNotThere) {
  EXPECT_EQ(errors_of("float quick_gelu(float x) { return x; }", kActivation, "quick_glu"),
            "0:0: there is no function quick_glu in ops/f.h\n  did you mean quick_gelu?\n");
  EXPECT_EQ(errors_of("namespace n { float a(float x) { return x; } }\nfloat b(float x) { return n::a(x); }",
                      kActivation, "quick_gelu"),
            "0:0: there is no function quick_gelu in ops/f.h\n  the file has a, b\n");
  EXPECT_EQ(errors_of("// nothing\n"),
            "0:0: there is no function f in ops/f.h\n  the file has no function\n");
}

TEST(Refused, WhatIsNoCpp) {
  EXPECT_EQ(errors_of("float f(float x) {\n  return x +;\n}"), "2:13: expected expression\n");
  EXPECT_EQ(errors_of("float f(float x) { return expf(x) + y; }"),
            "1:27: use of undeclared identifier 'expf'\n  add #include <cmath>\n"
            "1:37: use of undeclared identifier 'y'\n");
  EXPECT_EQ(errors_of("float f(float x) { return std::exp(x); }"),
            "1:27: use of undeclared identifier 'std'\n  add #include <cmath>\n");
  EXPECT_EQ(in_body("float f(float x) { return std::max(x, 1.0f) + std::gamma(x); }"),
            "2:32: no member named 'max' in namespace 'std'\n  add #include <algorithm>\n"
            "2:52: no member named 'gamma' in namespace 'std'\n");
  EXPECT_EQ(errors_of("#include <vector>\n#include </etc/passwd>\nfloat f(float x) { return x; }"),
            "1:10: 'vector' file not found\n  a function's file can include <cmath> and <algorithm>, and no "
            "other file\n");
}

// A spec may come from anywhere.
TEST(Refused, WhatWouldTakeForever) {
  std::string chain = "float f(float x) {\n", sum = "float f(float x) { return x", branches;
  for (int i = 0; i < 40; ++i) chain += "if (x > 1.0f) { if (x > 2.0f) return x; x *= 1.5f; }\n";
  for (int i = 0; i < 60000; ++i) sum += " + x";
  for (int i = 0; i < 10000; ++i) branches += "if (x < 1.0f) x = 2.0f; else ";
  EXPECT_EQ(errors_of(chain + "return x; }"), "1:7: the function is too large to be one expression\n");
  EXPECT_EQ(errors_of("#pragma clang __debug assert\nfloat f(float x) { return x; }"), "");
  const std::string too_long =
      ": this statement is too long for an expression\n  name parts of it as variables\n";
  EXPECT_EQ(errors_of(sum + "; }"), "1:4015" + too_long);
  EXPECT_EQ(errors_of("float f(float x) { return " + std::string(100000, '-') + "x; }"), "1:2021" + too_long);
  EXPECT_EQ(errors_of("float f(float x) {" + branches + "; return x; }"),
            "1:14543: this file is too long for a function and what it calls\n");
  std::string nested = "float f(float x) { ";
  for (int i = 0; i < 400; ++i) nested += "if (x < 1.0f) x = 2.0f; else ";
  nested += "x = x";
  for (int i = 0; i < 700; ++i) nested += " + x";
  EXPECT_EQ(errors_of(nested + "; return x; }"), "1:7: f is nested too deeply\n");
  EXPECT_EQ(errors_of("#line 7 \"/etc/passwd\"\nfloat f(float x) { while (true); }"),
            "2:20: a loop cannot be lifted into an expression\n  write its steps out, or find a closed form\n"
            "2:34: the end of f is reached without a return\n  return a value on every way through it\n");
}

}  // namespace
}  // namespace hydrac::specialize
