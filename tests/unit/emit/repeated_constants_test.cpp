// Constants that an earlier kernel of a file defines are not defined again.
#include "emit/kernels/repeated_constants.h"

#include <gtest/gtest.h>

namespace hydrac::emit {
namespace {

std::string kernel(const std::string& name, const std::string& constants) {
  return "namespace " + name + "_sizes {\n" + constants + "}  // namespace " + name + "_sizes\n\nvoid " +
         name + "() {}\n";
}

constexpr const char* kShape = "constexpr cuda::Shape kShape{.rows = R,\n    .columns = C};\n";

TEST(RepeatedConstants, OneOfSeveralLinesIsUsedFromTheFirst) {
  RepeatedConstants constants;
  const std::string first = kernel("a", std::string(kShape) + "constexpr int kThreads = 128;\n");
  EXPECT_EQ(constants.take("a", first), first);
  EXPECT_EQ(constants.take("b", kernel("b", std::string(kShape) + "constexpr int kThreads = 128;\n")),
            kernel("b", "using a_sizes::kShape;\nconstexpr int kThreads = 128;\n"));
}

TEST(RepeatedConstants, ThoseThatDifferStay) {
  RepeatedConstants constants;
  const std::string other = kernel("b", "constexpr cuda::Shape kShape{.rows = B,\n    .columns = C};\n");
  constants.take("a", kernel("a", kShape));
  EXPECT_EQ(constants.take("b", other), other);
  EXPECT_EQ(constants.take("c", "void c() {}\n"), "void c() {}\n");
}

}  // namespace
}  // namespace hydrac::emit
