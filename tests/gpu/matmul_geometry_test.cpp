// Which matmuls our kernels compute, and their launch geometry: no GPU needed.
#include "cuda/matmul/geometry.h"

#include <gtest/gtest.h>

namespace hydrac::cuda {
namespace {

constexpr auto kPersistent = MatmulSchedule::persistent, kOneTile = MatmulSchedule::one_tile,
               kWholeRows = MatmulSchedule::whole_rows;
constexpr int kSharedLimit = 227 * 1024;  // of a block of capability 9.0

MatmulProblem problem(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed = true,
                      bool paired = false, int sums = 0) {
  return {kHopper, true, b_transposed, m, n, k, paired, sums};
}

bool pays(const MatmulProblem& p, MatmulSchedule schedule) {
  return matmul_pays(p, schedule);
}

// Of all schedules, what they support.
template <class Visit>
void for_problems(Visit visit) {
  for (std::int64_t m : {1, 77, 2048, 16384, 65536}) {
    for (std::int64_t n : {16, 128, 208, 256, 384, 1024, 3072, 16384}) {
      for (std::int64_t k : {8, 72, 256, 768, 4096}) {
        for (const MatmulSchedule schedule : {kPersistent, kOneTile, kWholeRows}) {
          for (const bool paired : {false, true}) {
            const MatmulProblem p = problem(m, n, k, k % 16 == 0, paired, 1);
            if (!matmul_supports(p, schedule)) continue;
            SCOPED_TRACE(testing::Message()
                         << m << " x " << n << " x " << k << ", schedule " << static_cast<int>(schedule));
            visit(p, matmul_tile(p, schedule));
          }
        }
      }
    }
  }
}

TEST(MatmulGeometry, BlocksFitAMultiprocessor) {
  for_problems([](const MatmulProblem& p, const MatmulTile& tile) {
    const MatmulLaunch launch = matmul_launch(p, tile);
    EXPECT_GE(tile.stages, 1);
    EXPECT_LE(2 * tile.stages * 8, MatmulTile::barrier_bytes);
    EXPECT_LE(static_cast<int>(launch.shared_bytes), kSharedLimit);
    EXPECT_EQ(launch.threads, tile.consumers() * 128 + (tile.moves_registers() ? 128 : 32));
    EXPECT_LE(launch.threads, 1024);
    EXPECT_EQ(launch.grid % launch.cluster, 0u);
    EXPECT_GE(launch.grid, 1u);
    if (tile.moves_registers()) {
      EXPECT_LE(tile.consumers() * consumer_registers(tile.consumers()) + kProducerRegisters, 65536 / 128);
    }
  });
}

TEST(MatmulGeometry, StagesAreAlignedForTheSwizzle) {
  for_problems([](const MatmulProblem&, const MatmulTile& tile) {
    EXPECT_EQ(tile.a_bytes() % 1024, 0);
    EXPECT_EQ(tile.stage_bytes() % 1024, 0);
    EXPECT_EQ(tile.result_bytes() % 1024, 0);
    EXPECT_EQ(tile.rows / tile.cluster % 8, 0);
  });
}

TEST(MatmulGeometry, CopiesFillAStage) {
  for_problems([](const MatmulProblem& p, const MatmulTile& tile) {
    const MatmulMap a = matmul_map_a(p, tile), b = matmul_map_b(p);
    EXPECT_EQ(a.box[0], 64);  // the width of the swizzle
    EXPECT_EQ(b.box[0], 64);
    EXPECT_LE(a.box[1], 256);
    EXPECT_EQ(tile.rows % a.box[1], 0);
    EXPECT_EQ((tile.rows + tile.panels * b.box[1]) * 128, tile.stage_bytes());
    EXPECT_EQ(a.size[0], p.k);
    EXPECT_EQ(a.size[1], p.m);
    EXPECT_EQ(b.size[p.b_transposed ? 0 : 1], p.k);
    EXPECT_EQ(b.size[p.b_transposed ? 1 : 0], p.n);
  });
}

// A tail is of persistent blocks, and its copies fill the same stages.
TEST(MatmulGeometry, ATailHasTheBoxesOfItsMatmul) {
  for_problems([](MatmulProblem p, const MatmulTile& tile) {
    p.tail_k = 48;
    EXPECT_EQ(matmul_supports(p, tile.schedule), tile.is_persistent());
    if (!tile.is_persistent()) return;
    const MatmulMap a = matmul_map_a(p, tile), tail_a = matmul_map_a(matmul_tail(p), tile),
                    b = matmul_map_b(p), tail_b = matmul_map_b(matmul_tail(p));
    for (int d = 0; d < 2; ++d) {
      EXPECT_EQ(tail_a.box[d], a.box[d]);
      EXPECT_EQ(tail_b.box[d], b.box[d]);
    }
    EXPECT_EQ(tail_a.size[0], 48);
    EXPECT_EQ(tail_a.size[1], p.m);
    EXPECT_EQ(tail_b.size[p.b_transposed ? 0 : 1], 48);
    EXPECT_EQ(tail_b.size[p.b_transposed ? 1 : 0], p.n);
    p.tail_k = 12;  // rows of 24 bytes
    EXPECT_FALSE(matmul_supports(p, tile.schedule));
  });
}

// Of an 8 B Llama with adapters of rank 16; the long k of the mlp's outputs and of its input's gradient hides
// less than a library's kernel gains.
TEST(MatmulGeometry, TailsPayBehindAKThatIsNotLong) {
  const auto tail_pays = [](std::int64_t n, std::int64_t k, bool b_transposed, std::int64_t rank) {
    MatmulProblem p = problem(8192, n, k, b_transposed);
    p.tail_k = rank;
    return matmul_tail_pays(p);
  };
  EXPECT_TRUE(tail_pays(28672, 4096, true, 32));
  EXPECT_TRUE(tail_pays(6144, 4096, true, 48));
  EXPECT_TRUE(tail_pays(14336, 4096, false, 16));
  EXPECT_TRUE(tail_pays(4096, 6144, false, 48));
  EXPECT_FALSE(tail_pays(4096, 14336, true, 16));
  EXPECT_FALSE(tail_pays(4096, 28672, false, 32));
  EXPECT_FALSE(tail_pays(6144, 4096, true, 1024));
}

TEST(MatmulGeometry, EveryTileOfRowsLeavesARowOfSums) {
  for_problems([](const MatmulProblem& p, const MatmulTile& tile) {
    const std::int64_t sums = matmul_sums_rows(p, tile);
    if (tile.schedule == kWholeRows) {
      EXPECT_EQ(sums, matmul_launch(p, tile).grid);
    } else {
      EXPECT_GE(sums * tile.rows, p.m);
      EXPECT_LT((sums - 1) * tile.rows, p.m);
    }
  });
}

TEST(MatmulGeometry, PersistentBlocksAreAsManyAsTheChipHas) {
  MatmulProblem p = problem(65536, 3072, 768);
  const auto blocks = [&] { return matmul_launch(p, matmul_tile(p, kPersistent)).grid; };
  EXPECT_EQ(blocks(), 132u);
  p.chip = {90, 114};  // H100 PCIe
  EXPECT_EQ(blocks(), 114u);
}

// Side by side, the second block of the last cluster across would have no columns.
TEST(MatmulGeometry, AClusterLiesDownWhereTheTilesAcrossAreOdd) {
  const auto blocks = [](const MatmulProblem& p) {
    return matmul_launch(p, matmul_tile(p, kPersistent)).grid;
  };
  EXPECT_EQ(blocks(problem(128, 512, 768)), 4u);
  EXPECT_EQ(blocks(problem(256, 384, 768)), 6u);
  EXPECT_EQ(blocks(problem(128, 384, 768)), 6u);
}

TEST(MatmulGeometry, TilesCoverTheMatmulOnce) {
  for_problems([](const MatmulProblem& p, const MatmulTile& tile) {
    if (tile.is_persistent()) return;
    const std::int64_t down = tiles_of(tiles_of(p.m, tile.rows), tile.cluster) * tile.cluster;
    EXPECT_EQ(matmul_launch(p, tile).grid, down * tiles_of(p.n, tile.columns()));
  });
}

TEST(MatmulGeometry, AMultiprocessorHasOneSmallTile) {
  for (std::int64_t n : {256, 512, 768, 1024}) {
    const MatmulProblem p = problem(2048, n, 256);
    EXPECT_LE(matmul_launch(p, matmul_tile(p, kOneTile)).grid, 132u) << n;
    EXPECT_GE(matmul_launch(p, matmul_tile(p, kOneTile)).grid, 100u) << n;
  }
}

TEST(MatmulGeometry, ABlockHasWholeRows) {
  for_problems([](const MatmulProblem& p, const MatmulTile& tile) {
    if (tile.schedule != kWholeRows) return;
    EXPECT_EQ(tile.columns(), p.n);
    EXPECT_EQ(tile.panels % tile.cluster, 0);
    EXPECT_LT(tile.rows * p.n * 2, tile.stages * tile.stage_bytes());  // results lie over the stages
  });
}

// The matmuls of a token of each sequence of a 1 B Llama: a narrow result is split until three quarters of
// the multiprocessors have a block; what the blocks of a tile send each other and a part of the rows fit
// where the stages were.
TEST(MatmulGeometry, FewRowsSplitATileOfANarrowResult) {
  constexpr auto kFewRows = MatmulSchedule::few_rows;
  struct Case {
    MatmulProblem problem;
    int split;
    unsigned grid;
  };
  for (const int m : {1, 3, 64}) {
    for (const Case& c :
         {Case{problem(m, 3072, 2048), 4, 192}, Case{problem(m, 2048, 2048), 4, 128},
          Case{problem(m, 16384, 2048, true, true), 1, 128}, Case{problem(m, 2048, 8192), 4, 128},
          Case{problem(m, 2048, 200), 1, 32}, Case{problem(m, 2048, 576), 1, 32}}) {
      ASSERT_TRUE(matmul_supports(c.problem, kFewRows));
      const MatmulTile tile = matmul_tile(c.problem, kFewRows);
      const MatmulLaunch launch = matmul_launch(c.problem, tile);
      EXPECT_EQ(tile.split, c.split) << c.problem.n << " x " << c.problem.k;
      EXPECT_EQ(launch.cluster, c.split);
      EXPECT_EQ(launch.grid, c.grid);
      EXPECT_EQ(launch.threads, 160);
      EXPECT_LE(launch.shared_bytes, std::uint64_t{kSharedLimit} / 2);
      EXPECT_LE(tile.exchange_bytes() + tile.rows / tile.split * tile.columns() * 2,
                tile.stages * tile.stage_bytes());
      EXPECT_EQ(matmul_pays(c.problem, kFewRows), m == 64) << "measured in steps of a 1 B Llama";
    }
  }
  EXPECT_FALSE(matmul_supports(problem(65, 2048, 2048), kFewRows));
  EXPECT_FALSE(matmul_supports(problem(64, 2048, 2048, true, false, 1), kFewRows));
  EXPECT_FALSE(matmul_supports(problem(64, 2048, 2048, false), kFewRows));
}

TEST(MatmulGeometry, PersistentPaysWhereItWasMeasuredTo) {
  EXPECT_TRUE(pays(problem(2048, 1024, 256), kPersistent));
  EXPECT_TRUE(pays(problem(32768, 4096, 768, true, true), kPersistent));
  EXPECT_TRUE(pays(problem(16384, 1536, 384, false, false, 1), kPersistent));
  EXPECT_FALSE(pays(problem(2048, 1024, 256, false), kPersistent));
  EXPECT_FALSE(pays(problem(1, 3072, 768), kPersistent));
  EXPECT_FALSE(pays(problem(1024, 3072, 768), kPersistent));  // the text that a run writes at its end
}

TEST(MatmulGeometry, OneTilePaysWhereItWasMeasuredTo) {
  EXPECT_TRUE(pays(problem(2048, 256, 256), kOneTile));
  EXPECT_TRUE(pays(problem(2048, 1024, 256, false), kOneTile));
  EXPECT_TRUE(pays(problem(2048, 256, 1024), kOneTile));
  EXPECT_TRUE(pays(problem(2048, 512, 512), kOneTile));
  EXPECT_FALSE(pays(problem(2048, 1536, 512), kOneTile));
  EXPECT_FALSE(pays(problem(2048, 512, 2048), kOneTile));
  EXPECT_FALSE(pays(problem(4096, 256, 1024), kOneTile));
  EXPECT_FALSE(pays(problem(16384, 384, 384), kOneTile));
  EXPECT_FALSE(pays(problem(16384, 128, 384), kOneTile));  // a tile would be wider than the matmul
  EXPECT_FALSE(pays(problem(1, 256, 256), kOneTile));
  EXPECT_FALSE(pays(problem(65536, 768, 768), kOneTile));
}

TEST(MatmulGeometry, WholeRowsPayWhereTheyWereMeasuredTo) {
  EXPECT_TRUE(pays(problem(16384, 256, 1024), kWholeRows));
  EXPECT_TRUE(pays(problem(16384, 384, 384), kWholeRows));
  EXPECT_TRUE(pays(problem(16384, 384, 1536, false), kWholeRows));
  EXPECT_TRUE(pays(problem(32768, 384, 1536), kWholeRows));
  EXPECT_FALSE(pays(problem(1, 256, 256), kWholeRows));
  EXPECT_FALSE(pays(problem(2048, 256, 1024), kWholeRows));  // too few blocks
  EXPECT_FALSE(pays(problem(20480, 384, 384), kWholeRows));  // a second wave of few
  EXPECT_FALSE(pays(problem(16384, 384, 4096), kWholeRows));
  EXPECT_FALSE(pays(problem(16384, 384, 1536, false, false, 3), kWholeRows));  // too few registers
}

TEST(MatmulGeometry, RefusesWhatItDoesNotCompute) {
  for (const MatmulSchedule schedule : {kPersistent, kOneTile, kWholeRows}) {
    EXPECT_TRUE(matmul_supports(problem(1, 256, 8), schedule));
    EXPECT_FALSE(matmul_supports(problem(1, 260, 8), schedule));  // rows of 520 bytes
    EXPECT_FALSE(matmul_supports(problem(1, 256, 12), schedule));
    EXPECT_FALSE(matmul_supports(problem(0, 256, 8), schedule));
    EXPECT_FALSE(matmul_supports(problem(1, 256, 8, true, false, 4), schedule));
    EXPECT_EQ(matmul_supports(problem(1, 256, 8, true, true), schedule), schedule == kPersistent);
    EXPECT_EQ(matmul_supports(problem(1, 256, 8, true, false, 3), schedule), schedule == kWholeRows);
    MatmulProblem other = problem(1, 256, 8);
    for (int capability : {80, 89, 100, 120}) {
      other.chip.capability = capability;
      EXPECT_FALSE(matmul_supports(other, schedule));
    }
  }
  EXPECT_FALSE(matmul_supports(problem(1, 8, 8, true, true), kPersistent));  // halves of 8 bytes
  EXPECT_FALSE(matmul_supports(problem(64, 200, 256), kWholeRows));
  EXPECT_FALSE(matmul_supports(problem(64, 512, 256), kWholeRows));
}

// Rows below others may be another expert's, so that only blocks side by side share an operand.
TEST(MatmulGeometry, TilesOfExpertsHaveOneExpert) {
  for (const std::int64_t n : {136, 384, 1536}) {
    MatmulProblem p = problem(1280, n, 200);
    p.experts = 7;
    const MatmulTile tile = matmul_tile(p, kPersistent);
    EXPECT_EQ(kExpertRows % tile.rows, 0);
    EXPECT_EQ(tiles_of(n, tile.columns()) % tile.cluster, 0);
    EXPECT_EQ(matmul_map_b(p).size[1], 7 * n);
    EXPECT_TRUE(matmul_supports(p, kPersistent));
    EXPECT_FALSE(matmul_supports(p, kOneTile));
    p.m += 64;
    EXPECT_FALSE(matmul_supports(p, kPersistent));
  }
}

}  // namespace
}  // namespace hydrac::cuda
