// The layout of emitted code.
#include "specialize/format.h"

#include <gtest/gtest.h>

#include "specialize/parse.h"

namespace hydrac::specialize {
namespace {

TEST(Format, LaysOutLikeTheProjectsOwnSources) {
  EXPECT_EQ(
      formatted(
          "namespace a{\n\n\n\nint   f(const float *x,int n){if(n>0){return x [n];}\n\n\nreturn 0;}\n}\n"),
      "namespace a {\n\nint f(const float* x, int n) {\n  if (n > 0) {\n    return x[n];\n  }\n\n  return "
      "0;\n}\n"
      "}  // namespace a\n");
}

TEST(Format, KeepsCommentsAndPragmasWhereTheyStand) {
  const std::string code =
      "// What f does.\n__device__ void f(float* x) {\n#pragma unroll\n  for (int i = 0; i < 4; ++i) x[i] = "
      "0;  // zero\n}\n";
  EXPECT_EQ(formatted(code), code);
}

TEST(Format, DoesNotSplitALineOfPtx) {
  const std::string ptx(130, 'x');
  EXPECT_NE(formatted("void f() { asm volatile(\"" + ptx + "\"); }\n").find(ptx), std::string::npos);
}

TEST(Format, FormattingTwiceChangesNothing) {
  for (const SourceFile& file : template_headers()) {
    const std::string once = formatted(file.text);
    EXPECT_EQ(formatted(once), once) << file.path;
  }
}

TEST(Format, CodeThatDoesNotParseIsLaidOutAllTheSame) {
  EXPECT_EQ(formatted("int f( {\n"), "int f( {\n");
}

}  // namespace
}  // namespace hydrac::specialize
