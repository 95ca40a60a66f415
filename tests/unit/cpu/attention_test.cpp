// Attention against a slow float64 reference, and its bits against themselves on other numbers of threads.
#include "cpu/attention.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "hydrac/random.h"

namespace hydrac::cpu {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats random_floats(std::int64_t size, std::uint32_t key) {
  Floats values(size);
  for (std::int64_t i = 0; i < size; ++i) {
    // Roughly normal: the sum of four uniform values.
    double sum = 0.0;
    for (int part = 0; part < 4; ++part) sum += random_16_bits(key, 4 * i + part) * 0x1p-16 - 0.5;
    values[i] = static_cast<float>(sum * 1.7);
  }
  return values;
}

double relative_error(const Floats& got, const Doubles& wanted) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
  }
  return std::sqrt(difference / norm);
}

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

// One attention problem whose q, k and v are parts of packed rows [B*T, (H + 2 KV) * D], as are its
// gradients.
struct Problem {
  AttentionShape shape;
  int head_dim;
  double drop = 0.0;
  AttentionDropout dropout{};
  Floats qkv, dout;
  std::int64_t document = 0;  // tokens of each, one more in each further sequence; 0: a sequence is one

  Problem(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads, int head_dim,
          double drop = 0.0)
      : shape{batch, tokens, heads, kv_heads, static_cast<float>(1.0 / std::sqrt(head_dim))},
        head_dim(head_dim),
        drop(drop),
        dropout{random_key(7, 3, 1), static_cast<std::uint32_t>(drop * 0x1p16),
                static_cast<float>(1.0 / (1.0 - drop))},
        qkv(random_floats(batch * tokens * row(), 11)),
        dout(random_floats(batch * tokens * heads * head_dim, 12)) {}

  std::int64_t row() const { return (shape.heads + 2 * shape.kv_heads) * head_dim; }
  template <class Float>
  Heads<Float> packed(Float* data, std::int64_t first_head) const {
    return {data + first_head * head_dim, shape.tokens * row(), row(), head_dim};
  }
  template <class Float>
  Heads<Float> dense(Float* data) const {
    return {data, shape.tokens * shape.heads * head_dim, shape.heads * head_dim, head_dim};
  }
  std::vector<std::int32_t> documents() const {  // [B,T,2]
    std::vector<std::int32_t> all;
    for (std::int64_t token = 0; token < shape.batch * shape.tokens; ++token) {
      const std::int64_t length = document + token / shape.tokens;
      const std::int64_t first = token % shape.tokens / length * length;
      all.push_back(static_cast<std::int32_t>(first));
      all.push_back(static_cast<std::int32_t>(std::min(first + length, shape.tokens)));
    }
    return all;
  }
};

struct Result {
  Floats out, lse, d_qkv;
};

// Runs forward and backward with outputs and scratch poisoned.
template <int head_dim, class Mask, class Scores, bool has_dropout>
Result run(const Problem& p, int threads) {
  omp_set_num_threads(threads);
  const AttentionShape& s = p.shape;
  Result result{Floats(p.dout.size(), kPoison), Floats(s.batch * s.heads * s.tokens, kPoison),
                Floats(p.qkv.size(), kPoison)};
  struct alignas(64) Line {
    float floats[16];
  };
  const std::size_t bytes = std::max(attention_forward_workspace<head_dim>(s, threads),
                                     attention_backward_workspace<head_dim>(s, threads));
  Line poison;
  std::fill(std::begin(poison.floats), std::end(poison.floats), kPoison);
  std::vector<Line> scratch((bytes + sizeof(Line) - 1) / sizeof(Line), poison);
  const AttentionWorkspace workspace{scratch.data(), threads};

  const ConstHeads q = p.packed(p.qkv.data(), 0), k = p.packed(p.qkv.data(), s.heads),
                   v = p.packed(p.qkv.data(), s.heads + s.kv_heads);
  float* d = result.d_qkv.data();
  const auto compute = [&](const auto& sequences) {
    attention_forward<head_dim, Mask, Scores, has_dropout>(sequences, q, k, v, p.dense(result.out.data()),
                                                           result.lse.data(), p.dropout, workspace);
    std::fill(scratch.begin(), scratch.end(), poison);
    attention_backward<head_dim, Mask, Scores, has_dropout>(
        sequences, q, k, v, p.dense<const float>(result.out.data()), result.lse.data(),
        p.dense(p.dout.data()), p.packed(d, 0), p.packed(d, s.heads), p.packed(d, s.heads + s.kv_heads),
        p.dropout, workspace);
  };
  if constexpr (Mask::has_documents) {
    const std::vector<std::int32_t> documents = p.documents();
    compute(PackedShape{s, documents.data()});
  } else {
    compute(s);
  }
  omp_set_num_threads(omp_get_num_procs());
  return result;
}

struct Reference {
  Doubles out, lse, d_qkv;
};

// Who sees whom, said once more and more simply than by the policies.
template <class Mask>
bool visible(const Problem& p, std::int64_t batch, std::int64_t query, std::int64_t key) {
  if (p.document > 0 && query / (p.document + batch) != key / (p.document + batch)) return false;
  return (!Mask::hides_later || key <= query) && (p.shape.window == 0 || query - p.shape.window < key);
}

// The textbook formulas in float64, one row of the matrix at a time.
template <class Mask, class Scores>
Reference reference(const Problem& p) {
  const AttentionShape& s = p.shape;
  const std::int64_t T = s.tokens, D = p.head_dim;
  Reference r{Doubles(p.dout.size()), Doubles(s.batch * s.heads * T), Doubles(p.qkv.size())};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t g = h / (s.heads / s.kv_heads);
      const auto at = [&](std::int64_t token, std::int64_t head) {
        return ((b * T + token) * p.row()) + head * D;
      };
      for (std::int64_t i = 0; i < T; ++i) {
        Doubles probability(T), factor(T, 1.0), derivative(T, 1.0), d_probability(T);
        const float* q = p.qkv.data() + at(i, h);
        const std::int64_t out_at = ((b * T + i) * s.heads + h) * D;
        double maximum = -1e300, sum = 0.0;
        for (std::int64_t j = 0; j < T; ++j) {
          const float* k = p.qkv.data() + at(j, s.heads + g);
          probability[j] = s.scale * std::inner_product(q, q + D, k, 0.0);
          if (!Scores::is_linear) {
            const double capped = std::tanh(probability[j] / s.softcap);
            probability[j] = s.softcap * capped;
            derivative[j] = 1 - capped * capped;
          }
          if (!visible<Mask>(p, b, i, j)) probability[j] = -std::numeric_limits<double>::infinity();
          maximum = std::max(maximum, probability[j]);
        }
        for (double& x : probability) sum += x = std::exp(x - maximum);
        r.lse[(b * s.heads + h) * T + i] = maximum + std::log(sum);
        double delta = 0.0;
        for (std::int64_t j = 0; j < T; ++j) {
          probability[j] /= sum;
          if (p.drop > 0.0) {
            const std::uint64_t index = score_index(b * s.heads + h, T, i, j);
            const bool kept = random_16_bits(p.dropout.key, index) >= p.dropout.threshold;
            factor[j] = kept ? 1.0 / (1.0 - p.drop) : 0.0;
          }
          const std::int64_t v = at(j, s.heads + s.kv_heads + g);
          for (std::int64_t d = 0; d < D; ++d) {
            r.out[out_at + d] += probability[j] * factor[j] * p.qkv[v + d];
            d_probability[j] += factor[j] * p.dout[out_at + d] * p.qkv[v + d];
            r.d_qkv[v + d] += probability[j] * factor[j] * p.dout[out_at + d];
          }
          delta += probability[j] * d_probability[j];
        }
        for (std::int64_t j = 0; j < T; ++j) {
          const double d_score = probability[j] * (d_probability[j] - delta) * s.scale * derivative[j];
          const std::int64_t k = at(j, s.heads + g);
          for (std::int64_t d = 0; d < D; ++d) {
            r.d_qkv[at(i, h) + d] += d_score * p.qkv[k + d];
            r.d_qkv[k + d] += d_score * q[d];
          }
        }
      }
    }
  }
  return r;
}

// The part of packed gradients that belongs to q (0), k (1) or v (2).
template <class T>
std::vector<T> part_of(const Problem& p, const std::vector<T>& packed, int part) {
  const std::int64_t begin[] = {0, p.shape.heads, p.shape.heads + p.shape.kv_heads, p.row() / p.head_dim};
  std::vector<T> result;
  for (std::size_t row = 0; row < packed.size(); row += p.row()) {
    result.insert(result.end(), packed.begin() + row + begin[part] * p.head_dim,
                  packed.begin() + row + begin[part + 1] * p.head_dim);
  }
  return result;
}

template <int head_dim, class Mask, class Scores, bool has_dropout>
void expect_right(const Problem& p, double gradient_bound = 5e-6, double bound = 1e-6) {
  SCOPED_TRACE(::testing::Message() << "B " << p.shape.batch << ", T " << p.shape.tokens << ", H "
                                    << p.shape.heads << ", KV " << p.shape.kv_heads << ", D " << head_dim
                                    << ", window " << p.shape.window << ", softcap " << p.shape.softcap
                                    << ", drop " << p.drop << ", documents of " << p.document);
  const Result got = run<head_dim, Mask, Scores, has_dropout>(p, 2);
  const Reference wanted = reference<Mask, Scores>(p);
  EXPECT_LT(relative_error(got.out, wanted.out), bound);
  EXPECT_LT(relative_error(got.lse, wanted.lse), 1e-6);
  const char* names[] = {"dq", "dk", "dv"};
  for (int part = 0; part < 3; ++part) {
    const Doubles exact = part_of(p, wanted.d_qkv, part);
    const bool zero = std::all_of(exact.begin(), exact.end(), [](double x) { return std::fabs(x) < 1e-12; });
    if (zero) {  // one visible key: its probability is 1 whatever the score
      for (float x : part_of(p, got.d_qkv, part)) EXPECT_NEAR(x, 0.0f, 1e-5f) << names[part];
    } else {
      EXPECT_LT(relative_error(part_of(p, got.d_qkv, part), exact), gradient_bound) << names[part];
    }
  }
}

template <int head_dim>
void expect_right_for_lengths(std::int64_t heads, std::int64_t kv_heads) {
  for (std::int64_t tokens : {1, 7, 64, 65, 130, 257}) {
    expect_right<head_dim, CausalMask, LinearScores, false>(Problem(2, tokens, heads, kv_heads, head_dim));
  }
  expect_right<head_dim, FullMask, LinearScores, false>(Problem(1, 100, heads, kv_heads, head_dim));
}

TEST(Attention, MatchesTheReferenceWithOneKvHeadPerHead) {
  expect_right_for_lengths<64>(3, 3);
}
TEST(Attention, MatchesTheReferenceWithGroupedHeads) {
  expect_right_for_lengths<32>(6, 2);
}
TEST(Attention, MatchesTheReferenceWithOneKvHead) {
  expect_right_for_lengths<128>(4, 1);
}
TEST(Attention, MatchesTheReferenceWithHeadsOf40) {
  expect_right_for_lengths<40>(2, 2);
}
TEST(Attention, MatchesTheReferenceWithHeadsOf96) {
  expect_right_for_lengths<96>(2, 1);
}
TEST(Attention, MatchesTheReferenceWithHeadsOf256) {
  expect_right_for_lengths<256>(1, 1);
}
TEST(Attention, MatchesTheReferenceWithHeadsOf8) {
  expect_right_for_lengths<8>(2, 2);
}

TEST(Attention, MatchesTheReferenceOnALongOddSequence) {
  expect_right<64, CausalMask, LinearScores, false>(Problem(1, 1000, 2, 1, 64));
}

Problem with_window(Problem p, std::int64_t window) {
  p.shape.window = window;
  return p;
}
Problem with_softcap(Problem p, float softcap) {
  p.shape.softcap = softcap;
  return p;
}

TEST(Attention, MatchesTheReferenceWithWindows) {
  for (std::int64_t tokens : {1, 7, 64, 65, 130, 257}) {
    for (std::int64_t window : {1, 2, 63, 64, 65, 100, 256, 1000}) {
      expect_right<32, WindowMask, LinearScores, false>(with_window(Problem(2, tokens, 4, 2, 32), window));
    }
  }
  expect_right<64, WindowMask, LinearScores, true>(with_window(Problem(1, 200, 2, 1, 64, 0.2), 70));
}

TEST(Attention, AWindowThatHoldsEverythingIsTheCausalMask) {
  const Problem p(1, 200, 2, 2, 32);
  const Result causal = run<32, CausalMask, LinearScores, false>(p, 2),
               window = run<32, WindowMask, LinearScores, false>(with_window(p, 200), 2);
  EXPECT_EQ(causal.out, window.out);
  EXPECT_EQ(causal.d_qkv, window.d_qkv);
}

Problem with_documents(Problem p, std::int64_t length) {
  p.document = length;
  return p;
}

TEST(Attention, MatchesTheReferenceWithDocuments) {
  for (std::int64_t tokens : {1, 64, 130, 257}) {
    for (std::int64_t length : {1, 31, 64, 100}) {
      const Problem p = with_documents(Problem(3, tokens, 4, 2, 32), length);
      expect_right<32, DocumentMask<CausalMask>, LinearScores, false>(p);
      expect_right<32, DocumentMask<FullMask>, LinearScores, false>(p);
      expect_right<32, DocumentMask<WindowMask>, LinearScores, false>(with_window(p, 40));
    }
  }
  const Problem p = with_documents(Problem(2, 200, 2, 1, 64, 0.2), 70);
  expect_right<64, DocumentMask<CausalMask>, LinearScores, true>(p);
  expect_right<64, DocumentMask<WindowMask>, CappedScores, true>(with_softcap(with_window(p, 40), 3.0f));
}

// Scores between -10,000 and 10,000, exact in float32: a level for each 16 keys, some units of difference
// within.
Problem with_steep_scores(Problem p) {
  p.shape.scale = 1.0f;
  for (std::int64_t row = 0; row < p.shape.batch * p.shape.tokens; ++row) {
    for (std::int64_t head = 0; head < p.shape.heads + p.shape.kv_heads; ++head) {
      float* x = p.qkv.data() + row * p.row() + head * p.head_dim;
      for (int d = 0; d < p.head_dim; ++d) x[d] = std::round(x[d] * 4.0f) / 8.0f;
      x[0] = head < p.shape.heads ? 160.0f : static_cast<float>(row % p.shape.tokens / 16 * 37 % 63 * 2 - 62);
    }
  }
  return p;
}

// Tiles that a query sees nothing of come before those with its keys, whose scores may all be far below 0.
TEST(Attention, MatchesTheReferenceWithSteepScoresBehindMaskedTiles) {
  constexpr double bound = 2e-3;  // a log-sum-exp of 10,000 is rounded by 5e-4
  const Problem p = with_steep_scores(Problem(2, 400, 4, 2, 32));
  expect_right<32, CausalMask, LinearScores, false>(p, bound);
  for (std::int64_t window : {20, 64, 100})
    expect_right<32, WindowMask, LinearScores, false>(with_window(p, window), bound);
  for (std::int64_t length : {20, 100}) {
    expect_right<32, DocumentMask<CausalMask>, LinearScores, false>(with_documents(p, length), bound);
    expect_right<32, DocumentMask<FullMask>, LinearScores, false>(with_documents(p, length), bound);
    expect_right<32, DocumentMask<WindowMask>, LinearScores, true>(
        with_documents(with_window(with_steep_scores(Problem(1, 300, 2, 1, 32, 0.2)), 40), length), bound);
  }
  // A capped score is the softcap times a rounded number.
  expect_right<32, WindowMask, CappedScores, false>(with_window(with_softcap(p, 3e4f), 20), bound, bound);
}

TEST(Attention, ADocumentIsComputedAsASequenceOfItsOwn) {
  // Two documents of whole tiles: the same arithmetic, to the bit.
  const Problem packed = with_documents(Problem(1, 128, 2, 2, 32), 64);
  Problem apart(2, 64, 2, 2, 32);
  apart.qkv = packed.qkv, apart.dout = packed.dout;
  EXPECT_EQ((run<32, DocumentMask<CausalMask>, LinearScores, false>(packed, 2).out),
            (run<32, CausalMask, LinearScores, false>(apart, 2).out));
}

TEST(Attention, MatchesTheReferenceWithSoftcap) {
  for (float softcap : {0.5f, 3.0f, 50.0f}) {
    expect_right<32, CausalMask, CappedScores, false>(with_softcap(Problem(2, 130, 4, 2, 32), softcap));
    expect_right<32, FullMask, CappedScores, false>(with_softcap(Problem(1, 65, 2, 2, 32), softcap));
    expect_right<32, CausalMask, CappedScores, true>(with_softcap(Problem(1, 90, 2, 1, 32, 0.3), softcap));
    expect_right<32, WindowMask, CappedScores, false>(
        with_window(with_softcap(Problem(1, 150, 2, 1, 32), softcap), 40));
  }
}

TEST(Attention, SoftcapKeepsLargeScoresFinite) {
  Problem p = with_softcap(Problem(1, 150, 1, 1, 32), 30.0f);
  for (float& x : p.qkv) x *= 20.0f;
  const Result got = run<32, CausalMask, CappedScores, false>(p, 1);
  for (float x : got.out) ASSERT_TRUE(std::isfinite(x));
  for (float x : got.d_qkv) ASSERT_TRUE(std::isfinite(x));
}

TEST(Attention, MatchesTheReferenceWithoutAMask) {
  for (std::int64_t tokens : {1, 7, 64, 65, 130, 257}) {
    expect_right<32, FullMask, LinearScores, false>(Problem(2, tokens, 4, 2, 32));
  }
}

TEST(Attention, MatchesTheReferenceWhenWorkIsNotSplitIntoParts) {
  expect_right<32, CausalMask, LinearScores, false>(Problem(17, 70, 4, 2, 32));
}

TEST(Attention, MatchesTheReferenceWithDropout) {
  expect_right<32, CausalMask, LinearScores, true>(Problem(2, 150, 4, 2, 32, 0.2));
  expect_right<40, FullMask, LinearScores, true>(Problem(1, 70, 2, 2, 40, 0.5));
}

TEST(Attention, DropoutOfNothingIsNoDropout) {
  const Problem p(1, 90, 2, 2, 32, 0.0);
  const Result with = run<32, CausalMask, LinearScores, true>(p, 1),
               without = run<32, CausalMask, LinearScores, false>(p, 1);
  EXPECT_EQ(with.out, without.out);
  EXPECT_EQ(with.d_qkv, without.d_qkv);
}

TEST(Attention, DropsTheAskedShareOfProbabilities) {
  // With one-hot values each output element is one probability.
  Problem p(4, 64, 2, 2, 64, 0.3);
  const MutableHeads v = p.packed(p.qkv.data(), 4);
  for (std::int64_t b = 0; b < 4; ++b) {
    for (std::int64_t j = 0; j < 64; ++j) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t d = 0; d < 64; ++d) v.at(b, j, h)[d] = d == j ? 1.0f : 0.0f;
      }
    }
  }
  const Result result = run<64, FullMask, LinearScores, true>(p, 2);
  const auto zeros = static_cast<double>(std::count(result.out.begin(), result.out.end(), 0.0f));
  EXPECT_NEAR(zeros / static_cast<double>(result.out.size()), 0.3, 0.01);
}

template <int head_dim, class Mask, class Scores, bool has_dropout>
void expect_same_bits(const Problem& p) {
  const Result one = run<head_dim, Mask, Scores, has_dropout>(p, 1);
  for (int threads : {2, 3, 4}) {
    const Result more = run<head_dim, Mask, Scores, has_dropout>(p, threads);
    EXPECT_EQ(std::memcmp(one.out.data(), more.out.data(), one.out.size() * sizeof(float)), 0) << threads;
    EXPECT_EQ(std::memcmp(one.lse.data(), more.lse.data(), one.lse.size() * sizeof(float)), 0) << threads;
    EXPECT_EQ(std::memcmp(one.d_qkv.data(), more.d_qkv.data(), one.d_qkv.size() * sizeof(float)), 0)
        << threads;
  }
}

TEST(Attention, BitsDoNotDependOnTheNumberOfThreads) {
  expect_same_bits<64, CausalMask, LinearScores, false>(Problem(1, 300, 4, 1, 64));
  expect_same_bits<40, CausalMask, LinearScores, true>(Problem(2, 129, 2, 2, 40, 0.1));
  expect_same_bits<32, FullMask, LinearScores, false>(Problem(40, 33, 2, 1, 32));
}

TEST(Attention, LargeScoresNeitherOverflowNorLoseTheMaximum) {
  Problem p(1, 80, 1, 1, 32);
  for (float& x : p.qkv) x *= 20.0f;
  const Result got = run<32, CausalMask, LinearScores, false>(p, 1);
  const Reference wanted = reference<CausalMask, LinearScores>(p);
  EXPECT_LT(relative_error(got.out, wanted.out), 1e-4);
  for (float x : got.d_qkv) ASSERT_TRUE(std::isfinite(x));
}

TEST(Attention, NotANumberReachesTheOutput) {
  Problem p(1, 20, 1, 1, 32);
  p.qkv[10 * p.row()] = kPoison;  // q of token 10
  const Result got = run<32, CausalMask, LinearScores, false>(p, 1);
  EXPECT_TRUE(std::isnan(got.out[10 * 32]));
  EXPECT_FALSE(std::isnan(got.out[9 * 32]));
  EXPECT_FALSE(std::isnan(got.out[11 * 32]));
}

}  // namespace
}  // namespace hydrac::cpu
