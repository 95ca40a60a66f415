// Lines of a tensor of which ranks have parts.
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "runtime/program/initialize.h"
#include "runtime/program/tensor_pieces.h"
#include "tests/unit/support/on_ranks.h"

namespace hydrac::runtime {
namespace {

// "whole<-own+bytes" of each stretch.
std::string stretches(const TensorPiece& piece, int rank, int64_t begin, int64_t count) {
  std::string text;
  for_each_stretch(piece, rank, begin, count, [&](const PieceStretch& s) {
    text += (text.empty() ? "" : " ") + std::to_string(s.whole) + "<-" + std::to_string(s.own) + "+" +
            std::to_string(s.bytes);
  });
  return text;
}

TEST(TensorPieces, RowsLieSideBySide) {
  const TensorPiece rows{.first = 100, .bytes = 40, .own = 16, .parts = 3};
  EXPECT_EQ(stretches(rows, 0, 0, 16), "100<-0+16");
  EXPECT_EQ(stretches(rows, 1, 4, 8), "120<-4+8");
  EXPECT_EQ(stretches(rows, 2, 0, 16), "132<-0+8");  // then padding
  EXPECT_EQ(stretches(rows, 2, 8, 8), "");
}

TEST(TensorPieces, ColumnsAreAPartOfEveryLine) {
  const TensorPiece columns{.first = 8, .lines = 3, .stride = 24, .bytes = 24, .own = 12, .parts = 2};
  EXPECT_EQ(columns.own_bytes(), 36);
  EXPECT_EQ(stretches(columns, 0, 0, 36), "8<-0+12 32<-12+12 56<-24+12");
  EXPECT_EQ(stretches(columns, 1, 0, 36), "20<-0+12 44<-12+12 68<-24+12");
  EXPECT_EQ(stretches(columns, 1, 8, 10), "28<-8+4 44<-12+6");
}

TEST(TensorPieces, WhatAllHaveIsWholeOnEveryRank) {
  const TensorPiece whole{.first = 4, .bytes = 8, .own = 8};
  EXPECT_EQ(stretches(whole, 3, 0, 8), "4<-0+8");
}

// A rank's part may begin anywhere. In a process of its own: it starts OpenMP's threads, and later tests
// fork.
TEST(TensorPieces, StartingWeightsAreThoseOfTheWhole) {
  const auto told = test::on_ranks(2, [](Ranks&, int pipe) {
    std::string text;
    for (const auto kind : {ParameterStart::Kind::normal, ParameterStart::Kind::uniform}) {
      const ParameterStart start{.kind = kind, .number = 0.5};
      std::vector<float> whole(101);
      initialize_parameter(whole, 0, start, 7, 3);
      for (const int64_t first : {0, 1, 2, 37}) {
        std::vector<float> part(11);
        initialize_parameter(part, first, start, 7, 3);
        text += std::equal(part.begin(), part.end(), whole.begin() + first) ? "same " : "other ";
      }
    }
    test::tell(pipe, text);
  });
  EXPECT_EQ(told, std::vector<std::string>(2, "same same same same same same same same "));
}

}  // namespace
}  // namespace hydrac::runtime
