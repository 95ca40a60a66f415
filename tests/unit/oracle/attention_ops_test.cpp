// Attention and what makes its queries, keys and values: rotations, heads, compressed attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "one_op.h"
#include "oracle/job/random.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

TEST_F(OneOp, SplitHeadsCutsAtItsOffset) {
  const int x = job.input("x", {1, 2, 6}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  expect_near(value("split_heads", {{"offset", 2}, {"heads", 2}, {"head_dim", 2}}, {x}, {1, 2, 2, 2}),
              {2, 3, 4, 5, 8, 9, 10, 11});
}

TEST_F(OneOp, SplitHeadsCutsEachHeadAtItsOffset) {
  const int x = job.input("x", {1, 1, 8}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_near(value("split_heads", {{"offset", 2}, {"heads", 2}, {"head_dim", 2}, {"by_head", true}}, {x},
                    {1, 1, 2, 2}),
              {2, 3, 6, 7});
}

TEST_F(OneOp, RopeTurnsElementsHalfARowApart) {
  const int x = job.input("x", {1, 3, 1, 4}, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
  const int unused = job.value("cos", {3, 2}, "constant");
  Numbers expected;
  for (int t = 0; t < 3; ++t) {
    const double fast = t, slow = t / std::sqrt(100.0);
    expected.insert(expected.end(),
                    {std::cos(fast) - 3 * std::sin(fast), 2 * std::cos(slow) - 4 * std::sin(slow),
                     3 * std::cos(fast) + std::sin(fast), 4 * std::cos(slow) + 2 * std::sin(slow)});
  }
  expect_near(value("rope", {{"theta", 100.0}, {"scaling", nullptr}}, {x, unused, unused}, {1, 3, 1, 4}),
              expected);
}

TEST_F(OneOp, RopeTurnsByGivenPositions) {
  const int x = job.input("x", {1, 3, 1, 2}, {1, 2, 1, 2, 1, 2});
  const int positions = job.integer_input("positions", {1, 3}, {0, 2, 0});
  expect_near(value("rope", {{"theta", 100.0}}, {x, kLeftOut, kLeftOut, positions}, {1, 3, 1, 2}),
              {1, 2, std::cos(2.0) - 2 * std::sin(2.0), 2 * std::cos(2.0) + std::sin(2.0), 1, 2});
}

TEST_F(OneOp, RopeTurnsNeighboursWhereItInterleaves) {
  const int x = job.input("x", {1, 2, 1, 4}, {1, 2, 3, 4, 1, 2, 3, 4});
  const double slow = 1 / std::sqrt(100.0);
  expect_near(value("rope", {{"theta", 100.0}, {"interleaved", true}}, {x, kLeftOut, kLeftOut}, {1, 2, 1, 4}),
              {1, 2, 3, 4, std::cos(1.0) - 2 * std::sin(1.0), 2 * std::cos(1.0) + std::sin(1.0),
               3 * std::cos(slow) - 4 * std::sin(slow), 4 * std::cos(slow) + 3 * std::sin(slow)});
}

// Two taps of three channels over two: y[t] = W0 x[t] + W1 x[t - 1], channels 1 and 2 of it.
TEST_F(OneOp, CausalConvolutionsReadTheTokensBefore) {
  const int x = job.input("x", {1, 3, 2}, {1, 10, 2, 20, 3, 30});
  const int w = job.parameter("w", {6, 2}, {9, 9, 1, 0, 0, 1, 9, 9, 100, 0, 0, 1000});
  expect_near(value("causal_conv", {{"taps", 2}, {"first", 1}}, {x, w}, {1, 3, 1, 2}),
              {1, 10, 2 + 100, 20 + 10000, 3 + 200, 30 + 20000});
  expect_near(outcome.at("grad.w.0"), {0, 0, 6, 60, 6, 60, 0, 0, 3, 30, 3, 30});
}

TEST_F(OneOp, ValueShiftTakesTheSecondHalfOfTheWidthFromTheTokenBefore) {
  const int x = job.input("x", {1, 2, 3, 2}, {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16});
  expect_near(value("value_shift", kNone, {x}, {1, 2, 3, 2}), {1, 2, 3, 0, 0, 0, 11, 12, 13, 4, 5, 6});
}

// Documents of two tokens and of one.
TEST_F(OneOp, CausalConvolutionsReadTheTokensOfTheDocument) {
  const int x = job.input("x", {1, 3, 2}, {1, 10, 2, 20, 3, 30});
  const int w = job.parameter("w", {6, 2}, {9, 9, 1, 0, 0, 1, 9, 9, 100, 0, 0, 1000});
  const int documents = job.integer_input("documents", {1, 3, 2}, {0, 2, 0, 2, 2, 3});
  expect_near(value("causal_conv", {{"taps", 2}, {"first", 1}}, {x, w, documents}, {1, 3, 1, 2}),
              {1, 10, 2 + 100, 20 + 10000, 3, 30});
  expect_near(outcome.at("grad.w.0"), {0, 0, 6, 60, 6, 60, 0, 0, 1, 10, 1, 10});
}

TEST_F(OneOp, ValueShiftTakesNothingFromAnotherDocument) {
  const int x = job.input("x", {1, 3, 1, 2}, {1, 2, 3, 4, 5, 6});
  const int documents = job.integer_input("documents", {1, 3, 2}, {0, 1, 1, 3, 1, 3});
  expect_near(value("value_shift", kNone, {x, documents}, {1, 3, 1, 2}), {1, 0, 3, 0, 5, 4});
}

TEST_F(OneOp, HeadSumAddsHeads) {
  const int x = job.input("x", {1, 1, 3, 2}, {1, 2, 3, 4, 5, 6});
  expect_near(value("head_sum", {{"factor", 0.5}}, {x}, {1, 1, 2}), {4.5, 6});
}

TEST_F(OneOp, ScaleHeadsGivesEachHeadItsShare) {
  const int x = job.input("x", {1, 1, 2}, {1, 2});
  expect_near(value("scale_heads", {{"factor", 3.0}}, {x}, {1, 1, 2, 2}), {3, 6, 3, 6});
}

TEST_F(OneOp, L2normMakesUnitsTimesTheTemperature) {
  const int x = job.input("x", {1, 1, 2, 2}, {3, 4, 0, 5});
  const int temperature = job.parameter("temperature", {1}, {10});
  expect_near(value("l2norm", {{"eps", 0.0}}, {x, temperature}, {1, 1, 2, 2}), {6, 8, 0, 10});
  expect_near(outcome.at("grad.temperature.0"), {0.6 + 0.8 + 1});
}

// Frequencies of theta = 10^8 over 8 elements: 1, 1e-2, 1e-4, 1e-6. In a context of 2 pi * 1000 they turn
// 1000, 10, 0.1 and 0.001 times: the first is kept, the second blended (low 1, high 19: halfway), the others
// divided.
TEST_F(OneOp, RopeScalesAsLlama3Does) {
  const int x = job.input("x", {1, 2, 1, 8}, {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0});
  const json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 19.0},
                        {"original_max_position_embeddings", 2000 * std::acos(-1.0)}};
  const Numbers out =
      value("rope", {{"theta", 1e8}, {"scaling", scaling}}, {x, kLeftOut, kLeftOut}, {1, 2, 1, 8});
  const Numbers angles = {1, 1e-2 * (0.5 / 8 + 0.5), 1e-4 / 8, 1e-6 / 8};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(out[8 + i], std::cos(angles[i]), 1e-12);
    EXPECT_NEAR(out[12 + i], std::sin(angles[i]), 1e-12);
  }
}

// Frequencies of theta = 10^4 over 4 elements, 1 and 1e-2, each with a divisor of its own.
TEST_F(OneOp, RopeScalesAsLongRopeDoes) {
  const int x = job.input("x", {1, 2, 1, 4}, {1, 1, 0, 0, 1, 1, 0, 0});
  const json scaling = {{"pair_factors", {{"0", 2.0}, {"1", 5.0}}}, {"attention_factor", 3.0}};
  const Numbers out =
      value("rope", {{"theta", 1e4}, {"scaling", scaling}}, {x, kLeftOut, kLeftOut}, {1, 2, 1, 4});
  const Numbers expected = {
      3, 3, 0, 0, 3 * std::cos(0.5), 3 * std::cos(0.002), 3 * std::sin(0.5), 3 * std::sin(0.002)};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(out[i], expected[i], 1e-12);
}

// Sum over j <= i of softmax(scale * q_i . k_j) * keep(i, j) * v_j, head h with keys and values of head h /
// group.
Numbers attention_by_loops(const Numbers& q, const Numbers& k, const Numbers& v, bool causal, double dropout,
                           std::uint32_t key, int window = 3, double softcap = 0) {
  constexpr int B = 2, T = 3, H = 4, KV = 2, D = 2;
  const double scale = 0.7;
  const auto at = [](const Numbers& x, int heads, int b, int t, int h) {
    return &x[((b * T + t) * heads + h) * D];
  };
  Numbers out(q.size());
  for (int b = 0; b < B; ++b)
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < T; ++i) {
        const int end = causal ? i + 1 : T, kv = h / (H / KV), first = std::max(0, i - window + 1);
        const double* query = at(q, H, b, i, h);
        Numbers weights;
        double sum = 0;
        for (int j = 0; j < end; ++j) {
          const double* keys = at(k, KV, b, j, kv);
          double score = scale * (query[0] * keys[0] + query[1] * keys[1]);
          if (softcap > 0) score = softcap * std::tanh(score / softcap);
          weights.push_back(j < first ? 0 : std::exp(score));
          sum += weights.back();
        }
        for (int j = 0; j < end; ++j) {
          const std::uint64_t index = score_index(b * H + h, T, i, j);
          const bool keep = random_16_bits(key, index) >= static_cast<std::uint32_t>(std::ldexp(dropout, 16));
          for (int d = 0; d < D; ++d)
            out[((b * T + i) * H + h) * D + d] +=
                keep ? weights[j] / sum / (1 - dropout) * at(v, KV, b, j, kv)[d] : 0.0;
        }
      }
  return out;
}

class Attention : public OneOp {
 protected:
  Numbers attend(json attrs, int step_counter) {
    attrs["scale"] = 0.7;
    const int q_in = job.input("q", {2, 3, 4, 2}, q), k_in = job.input("k", {2, 3, 2, 2}, k);
    const int v_in = job.input("v", {2, 3, 2, 2}, v);
    return value("attention", attrs, {q_in, k_in, v_in, step_counter}, {2, 3, 4, 2});
  }
  const Numbers q = wavy(48, 1), k = wavy(24, 2), v = wavy(24, 3);
};

TEST_F(Attention, IsCausalOverGroupedHeads) {
  expect_near(attend({{"causal", true}}, kLeftOut), attention_by_loops(q, k, v, true, 0, 0));
}

TEST_F(Attention, SeesEverythingWhenItIsNotCausal) {
  expect_near(attend({{"causal", false}}, kLeftOut), attention_by_loops(q, k, v, false, 0, 0));
}

TEST_F(Attention, SeesTheTokensOfItsWindow) {
  expect_near(attend({{"causal", true}, {"window", 2}}, kLeftOut),
              attention_by_loops(q, k, v, true, 0, 0, 2));
}

TEST_F(Attention, SeesItselfInAWindowOfOne) {
  expect_near(attend({{"causal", true}, {"window", 1}}, kLeftOut),
              attention_by_loops(q, k, v, true, 0, 0, 1));
}

TEST_F(Attention, SeesAllBeforeInAWindowLongerThanTheSequence) {
  expect_near(attend({{"causal", true}, {"window", 4}}, kLeftOut), attention_by_loops(q, k, v, true, 0, 0));
}

// The only layer is the first one.
TEST_F(Attention, HasNoWindowInLayersThatSeeAllBefore) {
  expect_near(attend({{"causal", true}, {"window", 1}, {"window_period", 1}}, kLeftOut),
              attention_by_loops(q, k, v, true, 0, 0));
}

TEST_F(Attention, HasAWindowInTheLayersBetween) {
  expect_near(attend({{"causal", true}, {"window", 1}, {"window_period", 2}}, kLeftOut),
              attention_by_loops(q, k, v, true, 0, 0, 1));
}

TEST_F(Attention, CapsScores) {
  expect_near(attend({{"causal", true}, {"softcap", 0.5}}, kLeftOut),
              attention_by_loops(q, k, v, true, 0, 0, 3, 0.5));
}

// Documents of two tokens and of one: the last token sees itself.
TEST_F(Attention, SeesItsDocument) {
  const int q_in = job.input("q", {2, 3, 4, 2}, q), k_in = job.input("k", {2, 3, 2, 2}, k);
  const int v_in = job.input("v", {2, 3, 2, 2}, v);
  const int documents = job.integer_input("documents", {2, 3, 2}, {0, 2, 0, 2, 2, 3, 0, 1, 1, 3, 1, 3});
  const Numbers out = value("attention", {{"causal", true}, {"scale", 0.7}, {"documents", true}},
                            {q_in, k_in, v_in, kLeftOut, documents}, {2, 3, 4, 2});
  Numbers expected = attention_by_loops(q, k, v, true, 0, 0);
  const Numbers alone = attention_by_loops(q, k, v, true, 0, 0, 1),
                two = attention_by_loops(q, k, v, true, 0, 0, 2);
  for (std::size_t i = 16; i < 24; ++i) expected[i] = alone[i];  // token 2 of the first sequence
  for (std::size_t i = 32; i < 40; ++i) expected[i] = alone[i];  // token 1 of the second
  for (std::size_t i = 40; i < 48; ++i) expected[i] = two[i];    // token 2: itself and the one before
  expect_near(out, expected);
}

TEST_F(Attention, DropsWeightsAsTheGeneratorSays) {
  const std::uint32_t key = random_key(1337, 11, 3 * 65536);
  expect_near(attend({{"causal", true}, {"dropout", 0.3}, {"site", 3}}, rng_step(11)),
              attention_by_loops(q, k, v, true, 0.3, key));
}

}  // namespace
}  // namespace hydrac::oracle
