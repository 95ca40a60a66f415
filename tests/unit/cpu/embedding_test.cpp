// Embedding lookup and its scatter gradient.
#include "cpu/embedding.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <vector>

#include "hydrac/random.h"

namespace hydrac::cpu {
namespace {

std::vector<std::int32_t> random_ids(std::int64_t rows, std::int32_t vocabulary) {
  std::vector<std::int32_t> ids(rows);
  for (std::int64_t r = 0; r < rows; ++r)
    ids[r] = static_cast<std::int32_t>(random_16_bits(1, r) % vocabulary);
  return ids;
}

std::vector<float> random_floats(std::int64_t size, std::uint32_t key) {
  std::vector<float> values(size);
  for (std::int64_t i = 0; i < size; ++i)
    values[i] = static_cast<float>(random_16_bits(key, i) * 0x1p-16 - 0.5);
  return values;
}

TEST(Embedding, ForwardCopiesTheRowOfEachId) {
  const std::vector<std::int32_t> ids = {2, 0, 2};
  const std::vector<float> table = {1, 2, 3, 4, 5, 6};
  std::vector<float> out(6, -1.0f);
  embedding_forward(ids.data(), table.data(), out.data(), 3, 2);
  EXPECT_EQ(out, (std::vector<float>{5, 6, 1, 2, 5, 6}));
}

TEST(Embedding, BackwardAddsRowsOfTheSameIdToWhatIsThere) {
  const std::vector<std::int32_t> ids = {2, 0, 2};
  const std::vector<float> d_out = {1, 2, 3, 4, 10, 20};
  std::vector<float> d_table = {100, 100, 200, 200, 300, 300};
  embedding_backward(ids.data(), d_out.data(), d_table.data(), 3, 2);
  EXPECT_EQ(d_table, (std::vector<float>{103, 104, 200, 200, 311, 322}));
}

// Row order is the contract: the bits equal those of one plain loop, whatever the width and the threads.
TEST(Embedding, BackwardSumsInRowOrderOnAnyNumberOfThreads) {
  for (std::int64_t width : {1, 31, 32, 33, 100, 384}) {
    constexpr std::int64_t rows = 1000;
    const auto ids = random_ids(rows, 7);
    const auto d_out = random_floats(rows * width, 2);
    std::vector<float> wanted(7 * width, 0.25f);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < width; ++c) wanted[ids[r] * width + c] += d_out[r * width + c];
    }
    for (int threads : {1, 2, 3, 4}) {
      omp_set_num_threads(threads);
      std::vector<float> d_table(7 * width, 0.25f);
      embedding_backward(ids.data(), d_out.data(), d_table.data(), rows, width);
      EXPECT_EQ(d_table, wanted) << "width " << width << ", threads " << threads;
    }
  }
  omp_set_num_threads(omp_get_num_procs());
}

TEST(Embedding, NoRowsChangeNothing) {
  std::vector<float> d_table = {1, 2};
  embedding_backward(nullptr, nullptr, d_table.data(), 0, 2);
  EXPECT_EQ(d_table, (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace hydrac::cpu
