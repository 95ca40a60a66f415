// The launch geometry of the kernel for matmuls whose epilogue sees whole rows: no GPU needed.
#include "cuda/row_matmul/geometry.h"

#include <gtest/gtest.h>

namespace hydrac::cuda {
namespace {

constexpr std::uint64_t kSharedLimit = 227 * 1024;  // of a block of capability 9.0
constexpr int kRegisters = 65536;                   // of a multiprocessor

MatmulProblem problem(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed = true) {
  return {kHopper, true, b_transposed, m, n, k, false, b_transposed ? 0 : 3};
}

template <class Visit>
void for_problems(Visit visit) {
  for (std::int64_t m : {1, 77, 2048, 2112, 16384}) {
    for (std::int64_t n : {128, 256, 384}) {
      for (std::int64_t k : {8, 72, 256, 768, 1024, 4096}) {
        for (bool b_transposed : {false, true}) {
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
          const MatmulProblem p = problem(m, n, k, b_transposed);
          ASSERT_TRUE(row_matmul_supports(p));
          visit(p, row_matmul_tile(p));
        }
      }
    }
  }
}

TEST(RowMatmulGeometry, BlocksFitAMultiprocessor) {
  for_problems([](const MatmulProblem& p, const RowMatmulTile& tile) {
    const MatmulLaunch launch = row_matmul_launch(p, tile);
    EXPECT_LE((2 * tile.stages + 1) * 8, RowMatmulTile::barrier_bytes);
    EXPECT_LE(launch.shared_bytes, kSharedLimit);
    EXPECT_EQ(launch.threads % 32, 0);
    EXPECT_LE(launch.threads * 168, kRegisters);
    EXPECT_LE(tile.epilogue_threads(), launch.threads);
  });
}

TEST(RowMatmulGeometry, AClusterHasWholeRows) {
  for_problems([](const MatmulProblem& p, const RowMatmulTile& tile) {
    EXPECT_EQ(tile.across * tile.columns(), p.n);
    EXPECT_TRUE(tile.across == 1 || tile.down == 1);
    EXPECT_EQ(tile.rows % tile.across, 0);
    EXPECT_EQ(tile.panels % tile.down, 0);
    EXPECT_TRUE(!tile.has_whole_rows() || tile.warpgroups() * 64 == tile.rows);
    EXPECT_EQ(row_matmul_launch(p, tile).cluster, tile.across * tile.down);
  });
}

TEST(RowMatmulGeometry, TilesCoverTheRowsAndClustersAreWhole) {
  for_problems([](const MatmulProblem& p, const RowMatmulTile& tile) {
    const MatmulLaunch launch = row_matmul_launch(p, tile);
    EXPECT_EQ(launch.grid % launch.cluster, 0u);
    const std::int64_t rows = std::int64_t{launch.grid} / tile.across * tile.rows;
    EXPECT_GE(rows, p.m);
    EXPECT_LT(rows, p.m + tile.rows * tile.down);
    EXPECT_EQ(row_matmul_sums_rows(p, tile), launch.grid);
  });
}

// The epilogue lays the matmul's results over stages, beside rows that it reads, and exchanges its column
// sums there.
TEST(RowMatmulGeometry, StagesHaveRoomForTheEpilogue) {
  for_problems([](const MatmulProblem& p, const RowMatmulTile& tile) {
    const int ring = tile.stages * tile.stage_bytes();
    if (tile.has_whole_rows()) {
      EXPECT_LE(2 * tile.rows * p.n * 2, ring);
    } else {
      EXPECT_LE(tile.rows, tile.stages * RowMatmulTile::depth);
    }
    EXPECT_LE(tile.epilogue_threads() * 3 * 8 * 4, ring);
  });
}

TEST(RowMatmulGeometry, ACopyMovesTheWidthOfTheSwizzle) {
  for_problems([](const MatmulProblem& p, const RowMatmulTile& tile) {
    const MatmulMap a = row_matmul_map_a(p, tile), b = row_matmul_map_b(p);
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

TEST(RowMatmulGeometry, FewRowsFillTheMultiprocessorsOnce) {
  const MatmulProblem p = problem(2048, 256, 1024);
  EXPECT_EQ(row_matmul_launch(p, row_matmul_tile(p)).grid, 128u);
  const MatmulProblem large = problem(16384, 384, 1536);
  EXPECT_EQ(row_matmul_launch(large, row_matmul_tile(large)).grid, 128u);
}

// Two would find room in one while another has none.
TEST(RowMatmulGeometry, AMultiprocessorHasOneBlock) {
  for_problems([](const MatmulProblem&, const RowMatmulTile& tile) {
    EXPECT_GT(2 * tile.shared_bytes(), static_cast<int>(kSharedLimit));
  });
}

TEST(RowMatmulGeometry, PaysWhereItWasMeasuredTo) {
  EXPECT_TRUE(row_matmul_pays(problem(1024, 256, 1024)));
  EXPECT_TRUE(row_matmul_pays(problem(2048, 256, 256)));
  EXPECT_TRUE(row_matmul_pays(problem(2048, 256, 1024, false)));
  EXPECT_TRUE(row_matmul_pays(problem(16384, 256, 1024)));
  EXPECT_TRUE(row_matmul_pays(problem(16384, 384, 384)));
  EXPECT_TRUE(row_matmul_pays(problem(16384, 384, 1536, false)));
  EXPECT_TRUE(row_matmul_pays(problem(32768, 384, 1536)));
  EXPECT_FALSE(row_matmul_pays(problem(1, 256, 256)));
  EXPECT_FALSE(row_matmul_pays(problem(4096, 256, 1024)));  // too few blocks of 128 rows
  EXPECT_FALSE(row_matmul_pays(problem(20480, 384, 384)));  // a second round of few
  EXPECT_FALSE(row_matmul_pays(problem(16384, 384, 4096)));
  EXPECT_FALSE(row_matmul_pays(problem(16384, 128, 384)));
}

TEST(RowMatmulGeometry, RefusesWhatItDoesNotCompute) {
  MatmulProblem paired = problem(64, 256, 256);
  paired.paired = true;
  EXPECT_FALSE(row_matmul_supports(paired));
  EXPECT_FALSE(row_matmul_supports(problem(64, 200, 256)));
  EXPECT_FALSE(row_matmul_supports(problem(64, 512, 256)));
  EXPECT_FALSE(row_matmul_supports(problem(64, 256, 12)));
  MatmulProblem older = problem(64, 256, 256);
  older.chip.capability = 80;
  EXPECT_FALSE(row_matmul_supports(older));
  MatmulProblem sums = problem(64, 256, 256);
  sums.sums = 4;
  EXPECT_FALSE(row_matmul_supports(sums));
}

}  // namespace
}  // namespace hydrac::cuda
