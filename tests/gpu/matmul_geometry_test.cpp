// The launch geometry of the matmul kernel: no GPU needed.
#include "cuda/matmul/geometry.h"

#include <gtest/gtest.h>

namespace hydrac::cuda {
namespace {

constexpr std::uint64_t kSharedLimit = 227 * 1024;  // of a block of capability 9.0

MatmulProblem problem(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed = true,
                      bool paired = false, int sums = 0) {
  return {kHopper, true, b_transposed, m, n, k, paired, sums};
}

template <class Visit>
void for_problems(Visit visit) {
  for (std::int64_t m : {1, 77, 2048, 16384, 65536}) {
    for (std::int64_t n : {16, 208, 1024, 3072, 16384}) {
      for (bool b_transposed : {false, true}) {
        for (bool paired : {false, true}) visit(problem(m, n, 768, b_transposed, paired, 1));
      }
    }
  }
}

TEST(MatmulGeometry, LaunchesFitTheChip) {
  for_problems([](const MatmulProblem& p) {
    SCOPED_TRACE(testing::Message() << p.m << " x " << p.n << " x " << p.k);
    ASSERT_TRUE(matmul_supports(p));
    const MatmulLaunch launch = matmul_launch(p);
    EXPECT_LE(launch.shared_bytes, kSharedLimit);
    EXPECT_EQ(launch.grid % launch.cluster, 0u);
    EXPECT_GE(launch.grid, 1u);
    EXPECT_LE(launch.grid, 132u);
    EXPECT_EQ(launch.threads, 384);
  });
}

// Side by side, the second block of the last cluster across would have no columns.
TEST(MatmulGeometry, AClusterLiesDownWhereTheTilesAcrossAreOdd) {
  EXPECT_EQ(matmul_launch(problem(128, 512, 768)).grid, 4u);
  EXPECT_EQ(matmul_launch(problem(256, 384, 768)).grid, 6u);
  EXPECT_EQ(matmul_launch(problem(128, 384, 768)).grid, 6u);
}

TEST(MatmulGeometry, StagesAreAlignedForTheSwizzle) {
  for_problems([](const MatmulProblem& p) {
    const MatmulTile tile = matmul_tile(p);
    EXPECT_TRUE(tile.rows == 128 || tile.rows == 192);
    EXPECT_EQ(tile.rows / tile.cluster % 8, 0);  // 1024 bytes
    EXPECT_EQ(tile.stage_bytes() % 1024, 0);
    EXPECT_EQ(tile.result_bytes() % 1024, 0);
  });
}

TEST(MatmulGeometry, ACopyMovesTheWidthOfTheSwizzle) {
  for_problems([](const MatmulProblem& p) {
    const MatmulTile tile = matmul_tile(p);
    const MatmulMap a = matmul_map_a(p), b = matmul_map_b(p);
    EXPECT_EQ(a.box[0], 64);
    EXPECT_EQ(b.box[0], 64);
    EXPECT_EQ(a.box[1] * tile.cluster, tile.rows);
    EXPECT_EQ(tile.cluster * a.box[0] * a.box[1] + 2 * b.box[0] * b.box[1], tile.stage_bytes() / 2);
    EXPECT_EQ(a.size[0], p.k);
    EXPECT_EQ(a.size[1], p.m);
    EXPECT_EQ(a.row_bytes, 2 * p.k);
    EXPECT_EQ(b.size[p.b_transposed ? 0 : 1], p.k);
    EXPECT_EQ(b.size[p.b_transposed ? 1 : 0], p.n);
    EXPECT_EQ(b.row_bytes, 2 * b.size[0]);
  });
}

TEST(MatmulGeometry, EveryTileOfRowsLeavesOneRowOfSums) {
  for_problems([](const MatmulProblem& p) {
    const std::int64_t rows = matmul_tile(p).rows;
    EXPECT_GE(matmul_sums_rows(p) * rows, p.m);
    EXPECT_LT((matmul_sums_rows(p) - 1) * rows, p.m);
    EXPECT_EQ(matmul_columns(p), p.paired ? p.n / 2 : p.n);
  });
}

TEST(MatmulGeometry, PaysWhereItWasMeasuredTo) {
  EXPECT_TRUE(matmul_pays(problem(2048, 1024, 256)));
  EXPECT_TRUE(matmul_pays(problem(32768, 4096, 768, true, true)));
  EXPECT_TRUE(matmul_pays(problem(16384, 1536, 384, false, false, 1)));
  EXPECT_FALSE(matmul_pays(problem(2048, 1024, 256, false)));
  EXPECT_FALSE(matmul_pays(problem(1, 3072, 768)));
  EXPECT_FALSE(matmul_pays(problem(1024, 3072, 768)));  // the text that a run writes at its end
}

TEST(MatmulGeometry, ASmallerChipGetsAsManyBlocksAsItHas) {
  MatmulProblem p = problem(65536, 3072, 768);
  EXPECT_EQ(matmul_launch(p).grid, 132u);
  p.chip = {90, 114};  // H100 PCIe
  EXPECT_EQ(matmul_launch(p).grid, 114u);
}

TEST(MatmulGeometry, RefusesWhatItDoesNotCompute) {
  EXPECT_TRUE(matmul_supports(problem(1, 8, 8)));
  EXPECT_FALSE(matmul_supports(problem(1, 12, 8)));  // rows of 24 bytes
  EXPECT_FALSE(matmul_supports(problem(1, 8, 12)));
  EXPECT_FALSE(matmul_supports(problem(1, 8, 8, true, true)));  // halves of 8 bytes
  EXPECT_TRUE(matmul_supports(problem(1, 16, 8, true, true)));
  EXPECT_FALSE(matmul_supports(problem(0, 8, 8)));
  EXPECT_FALSE(matmul_supports(problem(1, 8, 8, true, false, 3)));
  MatmulProblem other = problem(1, 8, 8);
  for (int capability : {80, 89, 100, 120}) {
    other.chip.capability = capability;
    EXPECT_FALSE(matmul_supports(other));
  }
}

}  // namespace
}  // namespace hydrac::cuda
