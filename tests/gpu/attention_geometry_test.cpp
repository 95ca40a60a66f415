// The launch geometry of the CUDA attention kernels, for every chip, type and head_dim: no GPU needed.
#include "cuda/attention/geometry.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>

#include "cuda/attention/arguments.h"

namespace hydrac::cuda {
namespace {

constexpr AttentionKernel kKernels[] = {AttentionKernel::forward, AttentionKernel::query_gradients,
                                        AttentionKernel::key_gradients};
constexpr int kCapabilities[] = {75, 80, 86, 87, 89, 90, 100, 103, 120, 121};

template <class Visit>
void for_problems(Visit visit) {
  for (int capability : kCapabilities) {
    for (int bytes : {2, 4}) {
      for (bool is_bf16 : {false, true}) {
        for (bool has_dropout : {false, true}) {
          for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
            visit(AttentionProblem{capability, bytes, is_bf16 && bytes == 2, has_dropout, 3, 1000, 12, 4,
                                   head_dim});
          }
        }
      }
    }
  }
}

TEST(AttentionGeometry, TilesFitSharedMemoryAndKeepTheirShape) {
  for_problems([](const AttentionProblem& p) {
    ASSERT_TRUE(attention_supports(p));
    for (AttentionKernel kernel : kKernels) {
      SCOPED_TRACE(testing::Message() << "sm_" << p.capability << " head_dim " << p.head_dim << " bytes "
                                      << p.element_bytes << " kernel " << static_cast<int>(kernel));
      const AttentionFamily family = attention_family(p);
      const AttentionTile tile = attention_tile(p, kernel);
      EXPECT_LE(attention_launch(p, kernel).shared_bytes,
                static_cast<std::uint64_t>(shared_bytes_of_block(p.capability)));
      EXPECT_GE(tile.warps, 1);
      EXPECT_GE(tile.stages, 1);
      EXPECT_LE(tile.threads(), 1024);
      EXPECT_EQ(tile.columns % (family == AttentionFamily::plain ? 8 : 16), 0);
      EXPECT_EQ(tile.rows() % (tile.threads() / 8), 0);  // query_terms goes in whole rounds
      EXPECT_LE(tile.parts, 2);
      if (family == AttentionFamily::hopper) {
        EXPECT_EQ(tile.warps % 4, 0);
        EXPECT_EQ(tile.row_tiles, 1);
        EXPECT_EQ(tile.columns, 64);
        EXPECT_EQ(tile.stages, 3);
        EXPECT_EQ(tile.parts, 1);
      }
    }
  });
}

TEST(AttentionGeometry, RowsOfLdmatrixTilesTouchAllBanksOnce) {
  for_problems([](const AttentionProblem& p) {
    const AttentionFamily family = attention_family(p);
    const int row =
        attention_row_bytes(family == AttentionFamily::hopper, static_cast<int>(p.head_dim), p.element_bytes);
    EXPECT_EQ(row % 16, 0);
    if (family != AttentionFamily::hopper) {
      EXPECT_EQ(row / 16 % 2, 1);
    }
  });
}

TEST(AttentionGeometry, FamiliesFollowTheChip) {
  const auto family = [](int capability, int bytes, bool is_bf16, bool has_dropout, int head_dim) {
    return attention_family({capability, bytes, is_bf16, has_dropout, 1, 1, 1, 1, head_dim});
  };
  EXPECT_EQ(family(75, 2, false, false, 64), AttentionFamily::mma);
  EXPECT_EQ(family(75, 2, true, false, 64), AttentionFamily::plain);
  EXPECT_EQ(family(80, 2, true, false, 64), AttentionFamily::mma);
  EXPECT_EQ(family(90, 4, false, false, 64), AttentionFamily::plain);
  EXPECT_EQ(family(90, 2, true, true, 64), AttentionFamily::hopper);
  EXPECT_EQ(family(90, 2, true, false, 128), AttentionFamily::hopper);
  EXPECT_EQ(family(90, 2, true, true, 128), AttentionFamily::mma);
  EXPECT_EQ(family(90, 2, true, false, 96), AttentionFamily::mma);
  EXPECT_EQ(family(100, 2, true, false, 64), AttentionFamily::mma);
}

// A kernel's text names no batch where it asks for its tile, so that training and generation can share it.
TEST(AttentionGeometry, TilesAreTheSameForAnyBatch) {
  const auto tile_of = [](AttentionProblem p, std::int64_t batch, AttentionKernel kernel) {
    p.batch = batch;
    const AttentionTile t = attention_tile(p, kernel);
    return std::array{t.warps, t.row_tiles, t.columns, t.stages, t.blocks_per_sm, t.parts};
  };
  for_problems([&](const AttentionProblem& p) {
    for (AttentionKernel kernel : kKernels) {
      EXPECT_EQ(tile_of(p, 1, kernel), tile_of(p, 0, kernel));
      EXPECT_EQ(tile_of(p, 64, kernel), tile_of(p, 0, kernel));
    }
  });
}

// Whatever may be asked for fits, has the shape that was asked for, and leaves the other kernels alone.
TEST(AttentionGeometry, TilesThatAreAskedForFit) {
  int possible = 0;
  for_problems([&](const AttentionProblem& usual) {
    for (AttentionKernel kernel : kKernels) {
      for (const TileShape shape :
           {TileShape{64, 32}, {64, 64}, {64, 128}, {128, 32}, {128, 64}, {128, 128}}) {
        if (tile_obstacle(usual, kernel, shape) != TileObstacle::none) continue;
        ++possible;
        AttentionProblem p = usual;
        (kernel == AttentionKernel::forward           ? p.tiles.forward
         : kernel == AttentionKernel::query_gradients ? p.tiles.query_gradients
                                                      : p.tiles.key_gradients) = shape;
        const AttentionTile tile = attention_tile(p, kernel);
        const AttentionLaunch launch = attention_launch(p, kernel);
        ASSERT_EQ(tile.rows(), shape.rows);
        ASSERT_EQ(tile.columns, shape.columns);
        ASSERT_LE(launch.shared_bytes, static_cast<std::uint64_t>(shared_bytes_of_block(p.capability)));
        ASSERT_LE((launch.shared_bytes + 1024) * static_cast<std::uint64_t>(tile.blocks_per_sm),
                  static_cast<std::uint64_t>(shared_bytes_of_sm(p.capability)) + 1024);
        ASSERT_LE(tile.threads() * tile.blocks_per_sm, 2048);
        ASSERT_EQ(tile.rows() % (tile.threads() / 8), 0);  // query_terms goes in whole rounds
        ASSERT_EQ(attention_launch(p, AttentionKernel::query_terms).grid,
                  attention_launch(usual, AttentionKernel::query_terms).grid);
      }
    }
  });
  EXPECT_GT(possible, 1000);
}

TEST(AttentionGeometry, TilesThatAreTooMuchAreRefused) {
  const AttentionProblem wide{80, 2, true, false, 8, 1024, 8, 8, 256},
      ada{89, 2, true, false, 8, 1024, 8, 8, 128}, hopper{90, 2, true, false, 8, 1024, 8, 8, 64},
      floats{90, 4, false, false, 8, 1024, 8, 8, 64};
  EXPECT_EQ(tile_obstacle(wide, AttentionKernel::key_gradients, {64, 64}), TileObstacle::registers);
  EXPECT_EQ(tile_obstacle(ada, AttentionKernel::forward, {128, 128}), TileObstacle::shared);
  EXPECT_EQ(tile_obstacle(hopper, AttentionKernel::forward, {64, 32}), TileObstacle::width);
  EXPECT_EQ(tile_obstacle(floats, AttentionKernel::forward, {64, 64}), TileObstacle::kernel);
  EXPECT_EQ(tile_obstacle(hopper, AttentionKernel::forward, {128, 128}), TileObstacle::none);
}

TEST(AttentionGeometry, TilesOfGradientsMakeThemAPair) {
  AttentionProblem pieces{90, 2, true, false, 64, 1024, 12, 12, 64},
      heads{90, 2, true, false, 64, 256, 12, 12, 64};
  ASSERT_TRUE(attention_fuses_gradients(pieces));
  ASSERT_TRUE(attention_owns_heads(heads));
  pieces.tiles.query_gradients = heads.tiles.key_gradients = {64, 64};
  EXPECT_FALSE(attention_fuses_gradients(pieces));
  EXPECT_FALSE(attention_owns_heads(heads));
  EXPECT_EQ(attention_backward_workspace(pieces), 64u * 12 * 1024 * sizeof(QueryTerms));
}

TEST(AttentionGeometry, LaunchesCoverEveryRow) {
  const AttentionProblem gpt2{90, 2, true, false, 64, 1024, 12, 12, 64};
  EXPECT_EQ(attention_launch(gpt2, AttentionKernel::forward).grid, 64u * 12 * 16);
  EXPECT_EQ(attention_launch(gpt2, AttentionKernel::forward).threads, 128);
  EXPECT_EQ(attention_launch(gpt2, AttentionKernel::forward).shared_bytes, (64u + 2 * 3 * 64) * 128);
  const AttentionProblem grouped{90, 2, true, false, 4, 1000, 32, 8, 64};
  EXPECT_EQ(attention_launch(grouped, AttentionKernel::query_gradients).grid, 4u * 32 * 16);
  EXPECT_EQ(attention_launch(grouped, AttentionKernel::key_gradients).grid, 4u * 8 * 16);
  const AttentionProblem wide{80, 2, true, false, 1, 64, 1, 1, 256};  // two blocks share each row's columns
  EXPECT_EQ(attention_launch(wide, AttentionKernel::key_gradients).grid, 2u);
}

TEST(AttentionGeometry, GradientsAreFusedWhereThatIsFaster) {
  const auto fuses = [](int capability, bool has_dropout, std::int64_t batch, std::int64_t tokens,
                        int head_dim) {
    return attention_fuses_gradients({capability, 2, true, has_dropout, batch, tokens, 12, 4, head_dim});
  };
  EXPECT_TRUE(fuses(90, false, 16, 2048, 64));
  EXPECT_TRUE(fuses(90, false, 64, 512, 64));
  EXPECT_FALSE(fuses(90, false, 64, 256, 64));
  EXPECT_TRUE(fuses(90, true, 64, 256, 64));
  EXPECT_FALSE(fuses(90, true, 64, 128, 64));
  EXPECT_FALSE(fuses(90, false, 2, 1024, 64));  // 64 pieces of work for 132 multiprocessors
  EXPECT_FALSE(fuses(90, false, 16, 2048, 128));
  EXPECT_FALSE(fuses(80, false, 16, 2048, 64));
}

TEST(AttentionGeometry, BlocksOwnHeadsThatFitIntoSharedMemory) {
  const auto owns = [](int capability, std::int64_t tokens, int kv_heads, int head_dim, bool causal) {
    const AttentionProblem p{capability, 2, true, true, 64, tokens, 12, kv_heads, head_dim, causal};
    if (!attention_owns_heads(p)) return false;
    EXPECT_LE(attention_launch(p, AttentionKernel::head_gradients).shared_bytes,
              static_cast<std::uint64_t>(shared_bytes_of_block(90)) / (tokens <= 64 ? 2 : 1));
    EXPECT_EQ(attention_backward_workspace(p), 0u);
    return true;
  };
  for (std::int64_t tokens : {1, 64, 65, 128, 129, 192}) {
    EXPECT_TRUE(owns(90, tokens, 12, 64, true));
    EXPECT_TRUE(owns(90, tokens, 12, 64, false));
  }
  EXPECT_TRUE(owns(90, 256, 12, 64, true));
  EXPECT_FALSE(owns(90, 256, 12, 64, false));
  EXPECT_FALSE(owns(90, 257, 12, 64, true));
  EXPECT_FALSE(owns(90, 256, 4, 64, true));
  EXPECT_FALSE(owns(90, 256, 12, 128, true));
  EXPECT_FALSE(owns(80, 256, 12, 64, true));
  // Few heads are split among more blocks.
  EXPECT_FALSE(attention_owns_heads({90, 2, true, false, 4, 256, 12, 12, 64}));
  EXPECT_TRUE(attention_owns_heads({90, 2, true, false, 4, 128, 12, 12, 64}));
}

TEST(AttentionGeometry, OneWayOfMakingGradientsIsChosen) {
  const AttentionProblem p{90, 2, true, true, 64, 256, 12, 12, 64};
  EXPECT_TRUE(attention_owns_heads(p));
  EXPECT_FALSE(attention_fuses_gradients(p));
}

TEST(AttentionGeometry, BlocksThatOwnHeadsTakeOneAfterAnother) {
  const AttentionProblem small{90, 2, true, false, 64, 256, 6, 6, 64};
  const AttentionLaunch launch = attention_launch(small, AttentionKernel::head_gradients);
  EXPECT_EQ(launch.grid, 132u);
  EXPECT_EQ(launch.threads, 256 + 256);
  const AttentionProblem tiny{90, 2, true, false, 32, 64, 4, 4, 64};
  EXPECT_EQ(attention_launch(tiny, AttentionKernel::head_gradients).grid, 128u);
  EXPECT_EQ(attention_launch(tiny, AttentionKernel::head_gradients).threads, 128 + 128);
}

TEST(AttentionGeometry, FusedGradientsLaunchABlockAMultiprocessor) {
  const AttentionProblem hydra{90, 2, true, false, 16, 2048, 12, 4, 64};
  const AttentionLaunch launch = attention_launch(hydra, AttentionKernel::gradients);
  EXPECT_EQ(launch.grid, 132u);
  EXPECT_EQ(launch.threads, 256 + 128);
  EXPECT_LE(launch.shared_bytes, static_cast<std::uint64_t>(shared_bytes_of_block(90)));
  EXPECT_EQ(attention_launch(hydra, AttentionKernel::query_terms).grid, 16u * 12 * 16);
  const AttentionProblem small{90, 2, true, true, 2, 300, 6, 3, 64};
  EXPECT_EQ(attention_launch(small, AttentionKernel::gradients).grid, 2u * 3 * 3);
}

TEST(AttentionGeometry, PiecesOfWorkFitTheCacheButFillTheChip) {
  EXPECT_EQ(gradient_rows_at_once(64 * 12, 1024, 1), 96);
  EXPECT_EQ(gradient_rows_at_once(16 * 4, 2048, 3), 16);
  EXPECT_EQ(gradient_rows_at_once(4 * 8, 4096, 4), 8);  // 6 would fit, but be 192 pieces
  EXPECT_EQ(gradient_rows_at_once(3, 64, 1), 3);
  EXPECT_EQ(gradient_rows_at_once(1, 1 << 20, 8), 1);
}

TEST(AttentionGeometry, WorkspaceOfFusedGradientsHoldsSumsTurnsAndTerms) {
  // 300 tokens are three blocks of keys and six tiles of 64 queries.
  const AttentionProblem p{90, 2, true, true, 2, 300, 6, 3, 64};
  EXPECT_EQ(attention_gradients_workspace(p), 12 * 6 * (64 * 64 * 4 + 4) + 12 * 300 * sizeof(QueryTerms) + 4);
}

TEST(AttentionGeometry, WorkspaceIsOneTermAQuery) {
  EXPECT_EQ(attention_backward_workspace({90, 2, true, false, 2, 37, 6, 3, 64}),
            2 * 6 * 37 * sizeof(QueryTerms));
}

TEST(AttentionGeometry, Fp8NeedsHeadsOfWgmmaAndLinearScores) {
  const auto multiplies = [](int capability, bool is_bf16, bool has_dropout, int head_dim, bool has_softcap) {
    return attention_multiplies_fp8(
        {capability, 2, is_bf16, has_dropout, 1, 8, 1, 1, head_dim, true, has_softcap});
  };
  EXPECT_TRUE(multiplies(90, true, false, 64, false));
  EXPECT_TRUE(multiplies(90, true, false, 128, false));
  EXPECT_FALSE(multiplies(90, true, false, 96, false));
  EXPECT_FALSE(multiplies(90, true, true, 64, false));
  EXPECT_FALSE(multiplies(90, true, false, 64, true));
  EXPECT_FALSE(multiplies(90, false, false, 64, false));
  EXPECT_FALSE(multiplies(100, true, false, 64, false));
}

// Each block of each head once; neighbours are heads that share the cache, each with its longest block first.
TEST(AttentionGeometry, HeadsOfFp8TakeTurns) {
  constexpr int rows = 20, blocks = 7, group = 2;
  for (const std::int64_t kv_bytes : {1 << 10, 5 << 20, 40 << 20}) {
    std::set<std::pair<int, int>> seen;
    for (int index = 0; index < rows * blocks; ++index) {
      const Fp8Turn turn = fp8_turn(index, rows, blocks, group, kv_bytes);
      EXPECT_LT(turn.row, rows);
      EXPECT_LT(turn.block, blocks);
      seen.emplace(turn.row, turn.block);
    }
    EXPECT_EQ(seen.size(), size_t{rows * blocks});
  }
  EXPECT_EQ(fp8_turn(6, rows, blocks, group, 5 << 20).block, 1) << "three heads of keys, six of queries";
  EXPECT_EQ(fp8_turn(6 * blocks, rows, blocks, group, 5 << 20).row, 6);
}

TEST(AttentionGeometry, RefusesWhatNoKernelComputes) {
  const auto supports = [](int capability, int heads, int kv_heads, int head_dim) {
    return attention_supports({capability, 2, true, false, 1, 8, heads, kv_heads, head_dim});
  };
  EXPECT_TRUE(supports(75, 6, 2, 40));
  EXPECT_FALSE(supports(70, 6, 2, 64));
  EXPECT_FALSE(supports(80, 6, 4, 64));
  EXPECT_TRUE(supports(80, 6, 2, 8));
  EXPECT_FALSE(supports(80, 6, 2, 4));
  EXPECT_FALSE(supports(80, 6, 2, 36));
  EXPECT_FALSE(supports(80, 6, 2, 264));
}

}  // namespace
}  // namespace hydrac::cuda
