// Sizes as text: what symbols stand for, and that the text has the value.
#include "codegen/dimensions.h"

#include <gtest/gtest.h>

namespace hydrac::codegen {
namespace {

ir::Graph graph_of(const std::vector<ir::Shape>& shapes) {
  ir::Graph graph;
  for (const ir::Shape& shape : shapes) {
    ir::Value value;
    value.shape = shape;
    graph.add(std::move(value));
  }
  return graph;
}

const ir::Dim B{4, "B"}, T{16, "T"}, H{6, "H"}, K{2, "K"}, D{8, "D"}, Pack{100, "Pack"};

TEST(Dimensions, AreTheSymbolsOfShapes) {
  const Dimensions dimensions(graph_of({{B, T}, {H, K, D}, {Pack, {1024, "1024"}}, {{1, "1"}, {3, ""}}}));
  std::string all;
  for (const program::Dimension& d : dimensions.all()) all += d.symbol + "=" + std::to_string(d.size) + " ";
  EXPECT_EQ(all, "B=4 D=8 H=6 K=2 Pack=100 T=16 ");
}

TEST(Dimensions, LongSymbolsAreExpressions) {
  const Dimensions dimensions(graph_of({{B, T}, {H, K, D}, {Pack}}));
  const auto text = [&](int64_t size, const std::string& symbol) {
    return dimensions.of(ir::Dim{size, symbol}).code.text;
  };
  EXPECT_EQ(text(144, "3HD"), "3 * H * D");
  EXPECT_EQ(text(80, "(H+2K)D"), "(H + 2 * K) * D");
  EXPECT_EQ(text(4, "D/2"), "D / 2");
  EXPECT_EQ(text(64, "BT"), "B * T");
  EXPECT_EQ(text(1024, "1024"), "1024");
}

// Text stands for its value, or it is the digits.
TEST(Dimensions, WhatTheSymbolDoesNotSayIsANumber) {
  const Dimensions dimensions(graph_of({{B, T}, {H, K, D}}));
  for (const char* symbol : {"", "X", "3HX", "H+", "(H", "H)", "D/3", "D/0", "h", "3HD "}) {
    EXPECT_EQ(dimensions.of(ir::Dim{7, symbol}).code.text, "7") << symbol;
  }
  EXPECT_EQ(dimensions.of(ir::Dim{8, "H"}).code.text, "8");
}

TEST(Dimensions, ASymbolOfTwoSizesIsNone) {
  const Dimensions dimensions(graph_of({{B, T}, {{5, "T"}}}));
  ASSERT_EQ(dimensions.all().size(), 1u);
  EXPECT_EQ(dimensions.of(T).code.text, "16");
}

TEST(Size, TextHasParenthesesWhereNeeded) {
  const Size c = named(768, "C"), half = exact_quotient(c, literal(2)), both = c + c;
  EXPECT_EQ((c * half).code.text, "C * (C / 2)");
  EXPECT_EQ((literal(1) * both).code.text, "C + C");
  EXPECT_EQ((c * both).code.text, "C * (C + C)");
  EXPECT_EQ(exact_quotient(both, literal(2)).code.text, "(C + C) / 2");
  EXPECT_EQ(exact_quotient(c, literal(8) * named(2, "kRows")).code.text, "C / (8 * kRows)");
  EXPECT_EQ(ceiling_quotient(c, literal(256)).code.text, "C / 256");
  const Size blocks = ceiling_quotient(c, literal(500));
  EXPECT_EQ(blocks.code.text, "(C + 499) / 500");
  EXPECT_EQ(blocks.value, 2);
  EXPECT_EQ(sum_of({c, c, c}).code.text, "3 * C");
  EXPECT_EQ(sum_of({c, half}).code.text, "C + C / 2");
}

TEST(DimensionConstants, AreThoseThatTheCodeNames) {
  const Dimensions dimensions(graph_of({{B, T}, {D}}));
  EXPECT_EQ(dimension_constants(dimensions.all(), code("x[{} * kT]", dimensions.of(B)).names),
            "inline constexpr std::int64_t B = 4;\n");
}

}  // namespace
}  // namespace hydrac::codegen
