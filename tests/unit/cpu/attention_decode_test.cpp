// Attention over a cache, and what fills it, against plain loops in float64.
#include "cpu/attention_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/attention_forward.h"
#include "cpu/cache_append.h"
#include "hydrac/random.h"

namespace hydrac::cpu {
namespace {

using Floats = std::vector<float>;

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

Floats random_floats(std::int64_t size, std::uint32_t key) {
  Floats values(size);
  for (std::int64_t i = 0; i < size; ++i)
    values[i] = static_cast<float>(random_16_bits(key, i) * 0x1p-15 - 1.0);
  return values;
}

// How scores are spread.
enum class Spread {
  some_units,
  steep,  // -10,000 to 10,000 with a scale of 1, exact in float32: a level for each 16 keys
};

float steep_level(std::int64_t token) {
  return static_cast<float>(token / 16 * 37 % 63 * 2 - 62);
}

// Makes a head's vector one that spreads scores: element 0 is `first`, the others multiples of 1/8.
void make_steep(float* x, int head_dim, float first) {
  for (int d = 0; d < head_dim; ++d) x[d] = std::round(x[d] * 8.0f) / 8.0f;
  x[0] = first;
}

// q, k and v are parts of packed rows [S, (H + 2 K) D]; what no query may read of the cache is NaN.
template <int head_dim, class Mask, class Scores>
void check(const AttentionShape& shape, const std::vector<std::int32_t>& positions,
           Spread spread = Spread::some_units) {
  const std::int64_t H = shape.heads, K = shape.kv_heads, M = shape.tokens, row = (H + 2 * K) * head_dim;
  Floats qkv = random_floats(shape.batch * row, 1);
  Floats keys = random_floats(shape.batch * K * M * head_dim, 2), values = random_floats(keys.size(), 3);
  if (spread == Spread::steep) {
    for (std::int64_t i = 0; i < shape.batch * K * M; ++i)
      make_steep(keys.data() + i * head_dim, head_dim, steep_level(i % M));
    for (std::int64_t s = 0; s < shape.batch; ++s) {
      for (std::int64_t h = 0; h < H + K; ++h)
        make_steep(qkv.data() + s * row + h * head_dim, head_dim, h < H ? 160.0f : steep_level(positions[s]));
    }
  }
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(keys.size()); ++i) {
    if (i / head_dim % M >= positions[i / (head_dim * M * K)]) keys[i] = values[i] = kPoison;
  }
  Floats out(shape.batch * H * head_dim, kPoison);
  constexpr int threads = 3;
  std::vector<float> workspace(attention_decode_workspace(shape, head_dim, threads) / sizeof(float));
  const auto part = [&](std::int64_t head) {
    return ConstHeads{qkv.data() + head * head_dim, row, row, head_dim};
  };
  attention_decode<head_dim, Mask, Scores>(
      shape, part(0), part(H), part(H + K), positions.data(), keys.data(), values.data(),
      {out.data(), H * head_dim, H * head_dim, head_dim}, {workspace.data(), threads});
  for (std::int64_t i = 0; i < shape.batch * H; ++i) {
    const std::int64_t s = i / H, head = s * K + i % H / (H / K);
    const TokenRange seen = Mask::keys_of(shape, positions[s]);
    std::vector<double> weights, mixed(head_dim, 0.0);
    double sum = 0;
    for (int j = seen.first; j < seen.end; ++j) {
      double score = 0;
      for (int d = 0; d < head_dim; ++d)
        score += double{qkv[s * row + i % H * head_dim + d]} * keys[(head * M + j) * head_dim + d];
      score *= shape.scale;
      if (shape.softcap > 0) score = shape.softcap * std::tanh(score / shape.softcap);
      weights.push_back(score);
    }
    const double largest = *std::ranges::max_element(weights);
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    for (int j = seen.first; j < seen.end; ++j) {
      for (int d = 0; d < head_dim; ++d)
        mixed[d] += weights[j - seen.first] / sum * values[(head * M + j) * head_dim + d];
    }
    // A capped score of 10,000 is rounded by 1e-3.
    const double bound = spread == Spread::steep && shape.softcap > 0 ? 5e-3 : 2e-6;
    for (int d = 0; d < head_dim; ++d) ASSERT_NEAR(out[i * head_dim + d], mixed[d], bound) << "row " << i;
  }
  for (std::int64_t s = 0; s < shape.batch; ++s) {
    for (std::int64_t i = 0; i < K * head_dim; ++i) {
      const std::int64_t at = ((s * K + i / head_dim) * M + positions[s]) * head_dim + i % head_dim;
      ASSERT_EQ(keys[at], qkv[s * row + H * head_dim + i]);
      ASSERT_EQ(values[at], qkv[s * row + (H + K) * head_dim + i]);
    }
  }
}

TEST(AttentionDecode, EqualsFloat64) {
  check<64, CausalMask, LinearScores>({3, 150, 8, 2, 0.2f}, {149, 0, 63});
  check<8, CausalMask, LinearScores>({2, 70, 3, 3, 1.0f}, {69, 1});
  check<80, CausalMask, LinearScores>({2, 33, 4, 1, 0.1f}, {32, 17});
  check<32, WindowMask, LinearScores>({3, 100, 4, 2, 0.3f, 9}, {99, 8, 3});
  check<32, CausalMask, CappedScores>({2, 40, 4, 2, 0.9f, 0, 1.5f}, {39, 2});
}

TEST(AttentionDecode, EqualsFloat64WithSteepScores) {
  check<32, CausalMask, LinearScores>({3, 300, 4, 2, 1.0f}, {299, 63, 140}, Spread::steep);
  for (std::int64_t window : {1, 20, 70})
    check<32, WindowMask, LinearScores>({4, 300, 4, 2, 1.0f, window}, {299, 64, 140, 200}, Spread::steep);
  check<32, WindowMask, CappedScores>({2, 300, 4, 2, 1.0f, 20, 3e4f}, {299, 200}, Spread::steep);
}

// Token by token what attention over the whole sequence is.
template <int head_dim, class Mask, class Scores>
void check_bits(AttentionShape shape) {
  const std::int64_t T = shape.tokens, H = shape.heads, K = shape.kv_heads, row = (H + 2 * K) * head_dim;
  shape.batch = 1;
  const Floats qkv = random_floats(T * row, 7);
  Floats expected(T * H * head_dim), lse(H * T);
  constexpr int threads = 2;
  Floats workspace(sizeof(detail::ForwardScratch<head_dim>) * threads / sizeof(float) + 16);
  void* aligned = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) / 4 % 16;
  const auto part = [&](std::int64_t token, std::int64_t head) {
    return ConstHeads{qkv.data() + token * row + head * head_dim, T * row, row, head_dim};
  };
  const auto dense = [&](Floats& x) {
    return MutableHeads{x.data(), static_cast<std::int64_t>(x.size()), H * head_dim, head_dim};
  };
  attention_forward<head_dim, Mask, Scores, false>(shape, part(0, 0), part(0, H), part(0, H + K),
                                                   dense(expected), lse.data(), {0, 0, 1.0f},
                                                   {aligned, threads});
  Floats keys(K * T * head_dim, kPoison), values = keys, out(H * head_dim);
  workspace.resize(attention_decode_workspace(shape, head_dim, threads) / sizeof(float));
  for (std::int32_t t = 0; t < T; ++t) {
    attention_decode<head_dim, Mask, Scores>(shape, part(t, 0), part(t, H), part(t, H + K), &t, keys.data(),
                                             values.data(), dense(out), {workspace.data(), threads});
    for (std::int64_t i = 0; i < H * head_dim; ++i)
      ASSERT_EQ(out[i], expected[t * H * head_dim + i]) << "token " << t << " element " << i;
  }
}

TEST(AttentionDecode, HasTheBitsOfTheWholeSequence) {
  check_bits<64, CausalMask, LinearScores>({1, 200, 8, 2, 0.2f});
  check_bits<8, CausalMask, LinearScores>({1, 130, 3, 3, 1.0f});
  check_bits<80, CausalMask, LinearScores>({1, 70, 7, 1, 0.1f});
  check_bits<32, WindowMask, LinearScores>({1, 300, 4, 2, 0.3f, 9});
  check_bits<16, WindowMask, LinearScores>({1, 300, 4, 2, 0.3f, 100});
  check_bits<32, CausalMask, CappedScores>({1, 140, 4, 2, 0.9f, 0, 1.5f});
  check_bits<32, WindowMask, CappedScores>({1, 200, 12, 1, 0.9f, 70, 1.5f});
}

// A cache [S,K,M,D] as pages of `page_tokens` in another order, behind one that is nobody's; the last
// sequence has none.
struct Paged {
  Paged(const AttentionShape& shape, int head_dim, int page_tokens, const Floats& keys, const Floats& values)
      : of_sequence((shape.tokens + page_tokens - 1) / page_tokens),
        pages((1 + shape.batch * of_sequence) * shape.kv_heads * page_tokens * head_dim, kPoison),
        page_values(pages) {
    const std::int64_t K = shape.kv_heads, M = shape.tokens, count = shape.batch * of_sequence;
    for (std::int64_t i = 0; i < count; ++i)
      table.push_back(i / of_sequence == shape.batch - 1 ? -1 : static_cast<std::int32_t>(1 + i * 7 % count));
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(keys.size()); ++i) {
      const std::int64_t s = i / (K * M * head_dim), head = i / (M * head_dim) % K, t = i / head_dim % M;
      const std::int64_t page = table[s * of_sequence + t / page_tokens];
      if (page < 0) continue;
      const std::int64_t at = ((page * K + head) * page_tokens + t % page_tokens) * head_dim + i % head_dim;
      pages[at] = keys[i];
      page_values[at] = values[i];
    }
  }
  std::int64_t of_sequence;
  Floats pages, page_values;
  std::vector<std::int32_t> table;
};

// Attention over pages, to the bit that over a whole sequence.
template <int head_dim, class Mask, class Scores>
void check_pages(const AttentionShape& shape, const std::vector<std::int32_t>& positions) {
  constexpr int page_tokens = 64, threads = 2;
  const std::int64_t H = shape.heads, K = shape.kv_heads, M = shape.tokens, row = (H + 2 * K) * head_dim;
  const Floats qkv = random_floats(shape.batch * row, 1);
  Floats keys = random_floats(shape.batch * K * M * head_dim, 2), values = random_floats(keys.size(), 3);
  Paged paged(shape, head_dim, page_tokens, keys, values);
  Floats expected(shape.batch * H * head_dim, kPoison), found = expected;
  std::vector<float> workspace(attention_decode_workspace(shape, head_dim, threads) / sizeof(float));
  const auto part = [&](std::int64_t head) {
    return ConstHeads{qkv.data() + head * head_dim, row, row, head_dim};
  };
  const auto dense = [&](Floats& x) { return MutableHeads{x.data(), H * head_dim, H * head_dim, head_dim}; };
  attention_decode<head_dim, Mask, Scores>(shape, part(0), part(H), part(H + K), positions.data(),
                                           keys.data(), values.data(), dense(expected),
                                           {workspace.data(), threads});
  attention_decode<head_dim, Mask, Scores, page_tokens>(
      shape, part(0), part(H), part(H + K), positions.data(), paged.pages.data(), paged.page_values.data(),
      dense(found), {workspace.data(), threads}, paged.table.data());
  EXPECT_EQ(found, expected);
  const Paged after(shape, head_dim, page_tokens, keys, values);
  const auto same = [](float a, float b) { return a == b || (a != a && b != b); };
  EXPECT_TRUE(std::ranges::equal(paged.pages, after.pages, same));
  EXPECT_TRUE(std::ranges::equal(paged.page_values, after.page_values, same));
}

TEST(AttentionDecode, OverPagesHasTheSameBits) {
  check_pages<64, CausalMask, LinearScores>({4, 150, 8, 2, 0.2f}, {149, 64, 63, 0});
  check_pages<8, CausalMask, LinearScores>({3, 64, 3, 3, 1.0f}, {63, 1, 0});
  check_pages<80, WindowMask, LinearScores>({3, 300, 4, 1, 0.1f, 70}, {299, 130, 0});
  check_pages<32, CausalMask, CappedScores>({2, 130, 4, 2, 0.9f, 0, 1.5f}, {129, 0});
}

TEST(CacheAppend, KeepsPromptsInTheirPages) {
  constexpr int D = 8;
  constexpr CacheShape shape{3, 5, 2, 2};  // pages of two tokens, three a sequence
  const Floats k = random_floats(3 * 5 * 2 * D, 4), v = random_floats(k.size(), 5);
  Floats keys(6 * 2 * 2 * D, 7.0f), values = keys;
  const std::int32_t rows[] = {1, -1, 0}, pages[] = {5, 0, 2, 1, 4, -1};
  const auto dense = [&](const Floats& x) { return ConstHeads{x.data(), 5 * 2 * D, 2 * D, D}; };
  Floats expected_keys = keys, expected_values = values;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(k.size()); ++i) {
    const std::int64_t prompt = i / (5 * 2 * D), token = i / (2 * D) % 5, head = i / D % 2;
    if (rows[prompt] < 0 || pages[rows[prompt] * 3 + token / 2] < 0) continue;
    const std::int64_t at = ((pages[rows[prompt] * 3 + token / 2] * 2 + head) * 2 + token % 2) * D + i % D;
    expected_keys[at] = k[i];
    expected_values[at] = v[i];
  }
  cache_append_pages<D>(shape, 3, dense(k), dense(v), rows, pages, keys.data(), values.data());
  EXPECT_EQ(keys, expected_keys);
  EXPECT_EQ(values, expected_values);
}

TEST(CacheAppend, KeepsPromptsInTheirSequences) {
  constexpr int D = 8;
  constexpr CacheShape shape{2, 3, 2, 5};
  const Floats k = random_floats(2 * 3 * 2 * D, 4), v = random_floats(k.size(), 5);
  Floats keys(3 * 2 * 5 * D, 7.0f), values = keys;
  const std::int32_t rows[] = {2, -1};
  const auto dense = [&](const Floats& x) { return ConstHeads{x.data(), 3 * 2 * D, 2 * D, D}; };
  cache_append<D>(shape, dense(k), dense(v), rows, keys.data(), values.data());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(keys.size()); ++i) {
    const std::int64_t sequence = i / (2 * 5 * D), head = i / (5 * D) % 2, token = i / D % 5, d = i % D;
    const bool is_kept = sequence == 2 && token < 3;
    const std::int64_t from = (token * 2 + head) * D + d;
    EXPECT_EQ(keys[i], is_kept ? k[from] : 7.0f);
    EXPECT_EQ(values[i], is_kept ? v[from] : 7.0f);
  }
}

}  // namespace
}  // namespace hydrac::cpu
