// The launch geometry of the kernel for small matmuls: no GPU needed.
#include "cuda/small_matmul/geometry.h"

#include <gtest/gtest.h>

namespace hydrac::cuda {
namespace {

constexpr std::uint64_t kSharedLimit = 227 * 1024;  // of a block of capability 9.0

MatmulProblem problem(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed = true) {
  return {kHopper, true, b_transposed, m, n, k, false, 0};
}

template <class Visit>
void for_problems(Visit visit) {
  for (std::int64_t m : {1, 77, 2048, 16384}) {
    for (std::int64_t n : {16, 208, 256, 768, 1024, 3072}) {
      for (std::int64_t k : {8, 72, 136, 256, 768, 1024, 4096}) {
        for (bool b_transposed : {false, true}) {
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
          visit(problem(m, n, k, b_transposed));
        }
      }
    }
  }
}

TEST(SmallMatmulGeometry, BlocksFitAMultiprocessor) {
  for_problems([](const MatmulProblem& p) {
    ASSERT_TRUE(small_matmul_supports(p));
    const SmallMatmulTile tile = small_matmul_tile(p);
    const MatmulLaunch launch = small_matmul_launch(p, tile);
    EXPECT_GE(tile.stages, 1);
    EXPECT_LE(2 * tile.stages * 8, SmallMatmulTile::barrier_bytes);
    EXPECT_LE(launch.shared_bytes, kSharedLimit);
    EXPECT_EQ(launch.threads, tile.panels * 128 + 32);
    EXPECT_LE(launch.threads, 1024);
    EXPECT_EQ(launch.cluster, 1);
  });
}

TEST(SmallMatmulGeometry, AMultiprocessorHasOneTile) {
  for (std::int64_t n : {256, 512, 768, 1024}) {
    const MatmulProblem p = problem(2048, n, 256);
    EXPECT_LE(small_matmul_launch(p, small_matmul_tile(p)).grid, 132u) << n;
    EXPECT_GE(small_matmul_launch(p, small_matmul_tile(p)).grid, 100u) << n;
  }
}

TEST(SmallMatmulGeometry, TilesCoverTheMatmulOnce) {
  for_problems([](const MatmulProblem& p) {
    const SmallMatmulTile tile = small_matmul_tile(p);
    const std::int64_t rows = (p.m + 63) / 64, columns = (p.n + tile.columns() - 1) / tile.columns();
    EXPECT_EQ(small_matmul_launch(p, tile).grid, rows * columns);
    EXPECT_EQ(small_matmul_sums_rows(p), rows);
  });
}

TEST(SmallMatmulGeometry, ACopyMovesTheWidthOfTheSwizzle) {
  for_problems([](const MatmulProblem& p) {
    const SmallMatmulTile tile = small_matmul_tile(p);
    const MatmulMap a = small_matmul_map_a(p), b = small_matmul_map_b(p);
    EXPECT_EQ(a.box[0], 64);
    EXPECT_EQ(b.box[0], 64);
    EXPECT_EQ((a.box[1] + tile.panels * b.box[1]) * 128, tile.stage_bytes());
    EXPECT_EQ(a.size[0], p.k);
    EXPECT_EQ(a.size[1], p.m);
    EXPECT_EQ(a.row_bytes, 2 * p.k);
    EXPECT_EQ(b.size[p.b_transposed ? 0 : 1], p.k);
    EXPECT_EQ(b.size[p.b_transposed ? 1 : 0], p.n);
    EXPECT_EQ(b.row_bytes, 2 * b.size[0]);
  });
}

TEST(SmallMatmulGeometry, PaysWhereItWasMeasuredTo) {
  EXPECT_TRUE(small_matmul_pays(problem(2048, 256, 256)));
  EXPECT_TRUE(small_matmul_pays(problem(2048, 1024, 256, false)));
  EXPECT_TRUE(small_matmul_pays(problem(2048, 256, 1024)));
  EXPECT_TRUE(small_matmul_pays(problem(2048, 512, 512)));
  EXPECT_FALSE(small_matmul_pays(problem(2048, 1536, 512)));
  EXPECT_FALSE(small_matmul_pays(problem(2048, 512, 2048)));
  EXPECT_FALSE(small_matmul_pays(problem(4096, 256, 1024)));
  EXPECT_FALSE(small_matmul_pays(problem(16384, 384, 384)));
  EXPECT_FALSE(small_matmul_pays(problem(16384, 128, 384)));  // a tile would be wider than the matmul
  EXPECT_FALSE(small_matmul_pays(problem(1, 256, 256)));
  EXPECT_FALSE(small_matmul_pays(problem(65536, 768, 768)));
}

TEST(SmallMatmulGeometry, RefusesWhatItDoesNotCompute) {
  MatmulProblem paired = problem(64, 256, 256);
  paired.paired = true;
  EXPECT_FALSE(small_matmul_supports(paired));
  EXPECT_FALSE(small_matmul_supports(problem(1, 12, 8)));
  MatmulProblem older = problem(64, 256, 256);
  older.chip.capability = 80;
  EXPECT_FALSE(small_matmul_supports(older));
}

}  // namespace
}  // namespace hydrac::cuda
