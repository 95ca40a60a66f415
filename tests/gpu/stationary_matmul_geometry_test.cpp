// The launch geometry of the kernel of matmuls with b in shared memory: no GPU needed.
#include "cuda/stationary_matmul/geometry.h"

#include <gtest/gtest.h>

namespace hydrac::cuda {
namespace {

constexpr std::uint64_t kSharedLimit = 227 * 1024;  // of a block of capability 9.0

MatmulProblem problem(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed = true,
                      int matrices = 2) {
  return {kHopper, true, b_transposed, m, n, k, false, 0, matrices};
}

template <class Visit>
void for_problems(Visit visit) {
  for (std::int64_t m : {1, 77, 2048, 16384}) {
    for (std::int64_t n : {208, 256, 768, 1536, 3072, 40960}) {
      for (std::int64_t k : {8, 72, 256, 384}) {
        for (bool b_transposed : {false, true}) {
          for (int matrices : {1, 2}) {
            SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << ", " << matrices);
            visit(problem(m, n, k, b_transposed, matrices));
          }
        }
      }
    }
  }
}

TEST(StationaryMatmulGeometry, BlocksFitAMultiprocessor) {
  for_problems([](const MatmulProblem& p) {
    ASSERT_TRUE(stationary_matmul_supports(p));
    const StationaryTile tile = stationary_tile(p);
    const MatmulLaunch launch = stationary_launch(p);
    EXPECT_GE(tile.stages, 2);
    EXPECT_LE(launch.shared_bytes, kSharedLimit);
    EXPECT_LE(launch.threads, 1024);
  });
}

TEST(StationaryMatmulGeometry, BlocksOfTheSameColumnsShareTheRowsAndAllRunAtOnce) {
  for_problems([](const MatmulProblem& p) {
    const MatmulLaunch launch = stationary_launch(p);
    const std::int64_t across = (p.n + StationaryTile::columns - 1) / StationaryTile::columns;
    EXPECT_EQ(launch.grid % across, 0);
    if (across <= 132) {
      EXPECT_LE(launch.grid, 132u);
    }
    EXPECT_LE(launch.grid / across, (p.m + StationaryTile::rows - 1) / StationaryTile::rows);
  });
  EXPECT_EQ(stationary_launch(problem(16384, 1536, 384)).grid, 132u);
}

TEST(StationaryMatmulGeometry, SlotsTakeTurnsWithinATileAndAreAlignedForTheSwizzle) {
  for_problems([](const MatmulProblem& p) {
    const StationaryTile tile = stationary_tile(p);
    EXPECT_GE(tile.slots, 2);
    EXPECT_EQ(StationaryTile::pieces % tile.slots, 0);
    EXPECT_EQ(StationaryTile::stage_bytes % 1024, 0);
    EXPECT_EQ(StationaryTile::piece_bytes / 2 % 1024, 0);
    EXPECT_EQ(tile.b_bytes() % 1024, 0);
    EXPECT_EQ(tile.slots_bytes() % 1024, 0);
  });
}

TEST(StationaryMatmulGeometry, ACopyMovesTheWidthOfTheSwizzle) {
  for_problems([](const MatmulProblem& p) {
    const MatmulMap a = stationary_map_a(p), b = stationary_map_b(p), c = stationary_map_matrix(p);
    EXPECT_EQ(a.box[0], 64);
    EXPECT_EQ(a.box[1], StationaryTile::rows);
    EXPECT_EQ(b.box[0], 64);
    EXPECT_EQ(b.box[1], 64);
    EXPECT_EQ(c.box[0], 64);
    EXPECT_EQ(c.box[1], StationaryTile::piece_rows);
    EXPECT_EQ(b.size[p.b_transposed ? 0 : 1], p.k);
    EXPECT_EQ(b.size[p.b_transposed ? 1 : 0], p.n);
    EXPECT_EQ(c.size[0], p.n);
    EXPECT_EQ(c.size[1], p.m);
    EXPECT_EQ(c.row_bytes, 2 * p.n);
  });
}

TEST(StationaryMatmulGeometry, PaysWhereItWasMeasuredTo) {
  EXPECT_TRUE(stationary_matmul_pays(problem(16384, 1536, 384)));
  EXPECT_TRUE(stationary_matmul_pays(problem(16384, 1152, 384, true, 1)));
  EXPECT_FALSE(stationary_matmul_pays(problem(2048, 1024, 256)));
}

TEST(StationaryMatmulGeometry, RefusesWhatItDoesNotCompute) {
  EXPECT_TRUE(stationary_matmul_supports(problem(1, 256, 384)));
  EXPECT_FALSE(stationary_matmul_supports(problem(1, 256, 392)));  // b has no room
  EXPECT_FALSE(stationary_matmul_supports(problem(1, 256, 384, true, 0)));
  EXPECT_FALSE(stationary_matmul_supports(problem(1, 256, 384, true, 3)));
  MatmulProblem other = problem(1, 256, 384);
  other.sums = 1;
  EXPECT_FALSE(stationary_matmul_supports(other));
  other = problem(1, 256, 384);
  other.paired = true;
  EXPECT_FALSE(stationary_matmul_supports(other));
}

}  // namespace
}  // namespace hydrac::cuda
