#include "codegen/number_text.h"

#include <gtest/gtest.h>

#include "codegen/code.h"
#include "compiled.h"
#include "number_assertions.h"

namespace hydrac::test {
namespace {

using codegen::code;
using codegen::number_text;

TEST(NumberText, IsWhatAnEngineerWrites) {
  EXPECT_EQ(number_text(2.0f), "2.0f");
  EXPECT_EQ(number_text(0.1f), "0.1f");
  EXPECT_EQ(number_text(-0.0f), "-0.0f");
  EXPECT_EQ(number_text(1e-6f), "1e-06f");
  EXPECT_EQ(number_text(2.0), "2.0");
  EXPECT_EQ(number_text(1e300), "1e+300");
  EXPECT_EQ(number_text(-3), "-3");
  EXPECT_EQ(number_text(3u), "3u");
  EXPECT_EQ(number_text(size_t{3}), "3");
  EXPECT_EQ(number_text(int64_t{5000000000}), "5000000000");
}

TEST(NumberText, IsTheSameNumberToTheCompiler) {
  EXPECT_NO_THROW(CompiledKernels{number_assertions()});
}

// Code cannot be made of a number in another way.
TEST(NumberText, IsWhatCodeIsMadeOf) {
  EXPECT_EQ(code("f({}, {}, {}, {})", 2.0f, 50.0, 7u, -1).text, "f(2.0f, 50.0, 7u, -1)");
}

}  // namespace
}  // namespace hydrac::test
