// The launch geometry of the kernel of weight gradients: no GPU needed.
#include <gtest/gtest.h>

#include "cuda/weight_gradients/geometry.h"

namespace hydrac::cuda {
namespace {

constexpr std::uint64_t kSharedLimit = 227 * 1024;  // of a block of capability 9.0

WeightGradientsProblem layer(std::int64_t rows, std::int64_t width) {
  return {kHopper, true, rows, 4, {4 * width, width, 3 * width, width}, {width, 4 * width, width, width}};
}

template <class Visit>
void for_problems(const Visit& visit) {
  for (std::int64_t rows : {1, 100, 2048, 16384}) {
    for (std::int64_t width : {8, 136, 256, 384, 768}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, width " << width);
      visit(layer(rows, width));
    }
  }
}

TEST(WeightGradients, BlocksFitAMultiprocessor) {
  for_problems([](const WeightGradientsProblem& p) {
    ASSERT_TRUE(weight_gradients_support(p));
    const WeightGradientTile tile = weight_gradients_tile(p);
    const MatmulLaunch launch = weight_gradients_launch(p, tile);
    EXPECT_LE(launch.shared_bytes, kSharedLimit);
    EXPECT_LE(launch.threads, 1024);
    EXPECT_EQ(launch.grid % launch.cluster, 0u);
    if (tile.moves_registers()) {
      EXPECT_LE(tile.warpgroups * tile.registers() + tile.other_registers,
                (tile.warpgroups + 1) * tile.even_registers());
    }
    EXPECT_LE(2 * tile.stages * 8, WeightGradientTile::barrier_bytes);
    EXPECT_GE(weight_gradient_steps(p.rows), tile.parts);
  });
}

TEST(WeightGradients, OfASmallLayerAreOneWave) {
  const auto blocks = [](const WeightGradientsProblem& p) {
    return weight_gradients_launch(p, weight_gradients_tile(p)).grid;
  };
  EXPECT_EQ(blocks(layer(2048, 256)), 96u);
  EXPECT_EQ(blocks(layer(16384, 384)), 96u);
}

TEST(WeightGradients, ClustersCoverEachGradientOnce) {
  for_problems([](const WeightGradientsProblem& p) {
    const WeightGradientTile tile = weight_gradients_tile(p);
    const std::int64_t rows = tile.rows() * tile.shared, columns = tile.columns * tile.shared;
    std::int64_t blocks = 0;
    for (int i = 0; i < p.count; ++i)
      blocks += (p.m[i] + rows - 1) / rows * ((p.n[i] + columns - 1) / columns) * tile.cluster();
    EXPECT_EQ(weight_gradients_launch(p, tile).grid, blocks);
    EXPECT_LE(tile.cluster(), 8);  // all that is portable
  });
}

// Tiles that share operands are of gradients that have no tiles outside.
TEST(WeightGradients, ShareOperandsWhereTilesComeInSquares) {
  EXPECT_EQ(weight_gradients_tile(layer(16384, 384)).shared, 2);
  EXPECT_EQ(weight_gradients_tile(layer(16384, 576)).shared, 1);
  EXPECT_EQ(weight_gradients_map(16384, 384, weight_gradients_tile(layer(16384, 384))).box[1], 32);
}

TEST(WeightGradients, EachPieceIsOfOneWarpgroup) {
  for_problems([](const WeightGradientsProblem& p) {
    const WeightGradientTile tile = weight_gradients_tile(p);
    EXPECT_EQ(tile.rows() % tile.piece_rows, 0);
    EXPECT_EQ(tile.piece_columns() * tile.parts, tile.columns);
    int pieces = 0;
    for (int i = 0; i < p.count; ++i) {
      const std::int64_t across = (p.n[i] + tile.piece_columns() - 1) / tile.piece_columns();
      pieces += static_cast<int>((p.m[i] + 63) / 64 * across);
    }
    EXPECT_EQ(weight_gradient_pieces(p, tile), pieces);
  });
}

TEST(WeightGradients, ACopyMovesTheWidthOfTheSwizzle) {
  const MatmulMap map = weight_gradients_map(1000, 72, {3, 192, 4, 2, 1});
  EXPECT_EQ(map.box[0] * 2, 128);
  EXPECT_EQ(map.box[0] * map.box[1] * 2, WeightGradientTile::panel_bytes);
  EXPECT_EQ(map.size[0], 72);
  EXPECT_EQ(map.size[1], 1000);
  EXPECT_EQ(map.row_bytes, 144);
}

}  // namespace
}  // namespace hydrac::cuda
