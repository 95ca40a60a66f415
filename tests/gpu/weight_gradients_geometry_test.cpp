// The launch geometry of the kernel of weight gradients: no GPU needed.
#include <gtest/gtest.h>

#include "cuda/matmul/weight_gradients.h"

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
      EXPECT_LE(tile.consumers * consumer_registers(tile.consumers) + kProducerRegisters, 65536 / 128);
    }
    EXPECT_LE(2 * tile.stages * 8, WeightGradientTile::barrier_bytes);
    EXPECT_GE(tiles_of(p.rows, WeightGradientTile::depth), tile.split);
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
    std::int64_t blocks = 0;
    for (int i = 0; i < p.count; ++i)
      blocks += tiles_of(p.m[i], tile.rows()) * tiles_of(p.n[i], tile.columns) * tile.split;
    EXPECT_EQ(weight_gradients_launch(p, tile).grid, blocks);
    EXPECT_EQ(weight_gradients_launch(p, tile).cluster, tile.split);
  });
}

// Large tiles are of gradients that have no tiles outside, and of rows that can be split.
TEST(WeightGradients, AreSplitWhereTilesComeInSquares) {
  EXPECT_EQ(weight_gradients_tile(layer(16384, 384)).split, 2);
  EXPECT_EQ(weight_gradients_tile(layer(16384, 520)).split, 1);
  EXPECT_EQ(weight_gradients_tile(layer(64, 1920)).split, 1);
}

TEST(WeightGradients, ACopyMovesTheWidthOfTheSwizzle) {
  const MatmulMap map = weight_gradients_map(1000, 72);
  EXPECT_EQ(map.box[0] * 2, 128);
  EXPECT_EQ(map.box[0] * map.box[1] * 2, WeightGradientTile::panel_bytes);
  EXPECT_EQ(map.size[0], 72);
  EXPECT_EQ(map.size[1], 1000);
}

}  // namespace
}  // namespace hydrac::cuda
