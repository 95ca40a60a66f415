// Statements as a tree: what is declared follows from what is referred to, and how they are printed.
#include "codegen/statement.h"

#include <gtest/gtest.h>

#include "codegen/kernel_text.h"

namespace hydrac::codegen {
namespace {

TEST(Code, RefersToWhatItsPartsReferTo) {
  const Code sum = code(Precedence::sum, "{} + {}", named("B"), named("T"));
  const Code product = code("{} * {}", within(sum, Precedence::product), "x");
  EXPECT_EQ(product.text, "(B + T) * x");
  EXPECT_EQ(product.names, (Names{"B", "T"}));
  EXPECT_EQ(sum_of(sum_of({}, product), {}).text, product.text);
  EXPECT_EQ(joined({named("B"), "1", named("T")}, ", ").names, (Names{"B", "T"}));
}

TEST(Block, LeavesOutWhatNobodyRefersTo) {
  Block block;
  block.declare_where_used("const int", "used", "1");
  block.declare_where_used("const int", "of_unused", "2");
  block.declare_where_used("const int", "unused", code("{} + 1", named("of_unused")));
  block.declare_where_used("const int", "of_code_behind", "3", "why");
  block.open("if (x)");
  block.line("y = {} * {};", named("used"), named("B"));
  block.close();
  EXPECT_EQ(block.drop_unused({"of_code_behind"}), Names{"B"});
  EXPECT_EQ(
      block.text(1),
      "  const int used = 1;\n  const int of_code_behind = 3;  // why\n  if (x) {\n    y = used * B;\n  }\n");
}

// A name inside a block that declares it is not the one outside.
TEST(Block, KeepsNamesOfScopesApart) {
  Block block;
  block.declare_where_used("const int", "r", "0");
  block.open_loop("int", named("r"), named("B"));
  block.line("x[{}] = 0;", named("r"));
  block.close();
  block.open("");
  block.declare_where_used("const int", "c", "1");
  block.line("y[{}] = 0;", named("c"));
  block.close();
  block.line("z = {};", named("c"));
  EXPECT_EQ(block.drop_unused(), (Names{"B", "c"}));
  EXPECT_EQ(block.text(0),
            "for (int r = 0; r < B; ++r) {\n  x[r] = 0;\n}\n"
            "{\n  const int c = 1;\n  y[c] = 0;\n}\nz = c;\n");
}

TEST(Block, PrintsBranchesCommentsAndDirectives) {
  Block block;
  block.comment("First.");
  block.blank();
  block.line("#pragma unroll");
  block.open("if (a)").comment = "mostly";
  block.line("b();");
  block.otherwise("else");
  block.line("c();").comment = "rarely";
  block.close();
  EXPECT_EQ(block.text(1),
            "  // First.\n\n#pragma unroll\n  if (a) {  // mostly\n    b();\n  } else {\n    c();  // "
            "rarely\n  }\n");
  EXPECT_EQ(block.text(0, false), "\n#pragma unroll\nif (a) {\n  b();\n} else {\n  c();\n}\n");
}

TEST(KernelText, NamesDimensionsOfAllItsParts) {
  KernelText kernel;
  kernel.sizes.line("constexpr int kRows = {};", named("B"));
  kernel.attributes = code("void __launch_bounds__({}) ", named("T"));
  kernel.take("float*", "x", {{4, "H"}}, true);
  kernel.body.open_loop("int", named("c"), named("C"));
  kernel.body.line("x[{}] = {};", named("c"), kNamePlaceholder);
  kernel.body.close();
  EXPECT_EQ(names_of(kernel), (Names{"B", "C", "T"}));
  EXPECT_EQ(to_text(kernel, "clear"),
            "namespace clear_sizes {\nconstexpr int kRows = B;\n}  // namespace clear_sizes\n\n"
            "void __launch_bounds__(T) clear(\n    float* __restrict__ x) {  // [H]\n"
            "  for (int c = 0; c < C; ++c) {\n    x[c] = clear;\n  }\n}\n");
  EXPECT_EQ(to_text(kernel, "clear", {.comments = false, .restricts = false}).find("__restrict__"),
            std::string::npos);
}

}  // namespace
}  // namespace hydrac::codegen
