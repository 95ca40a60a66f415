// Each operation against values computed by hand, or by a loop that spells out its formula.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "job_folder.h"
#include "oracle/job/random.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

void expect_near(const Numbers& actual, const Numbers& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-12) << "element " << i;
}

// A job around one node; value() is what the node computed.
class OneOp : public ::testing::Test {
 protected:
  Numbers value(const std::string& op, const json& attrs, const std::vector<int>& inputs,
                const Shape& shape) {
    const int out = job.node(op, attrs, inputs, shape);
    job.sum_as_loss(out);
    const std::string name = job.root()["graph"]["values"][out]["name"];
    job.root()["dump"] = {name};
    outcome = job.write_and_run();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.shapes["act." + name + ".0"], shape);
    return outcome.at("act." + name + ".0");
  }

  // A step counter for operations with dropout.
  int rng_step(int step) { return job.integer_input("rng_step", {}, {step}); }

  JobFolder job;
  Outcome outcome;
};

TEST_F(OneOp, EmbeddingLooksUpRows) {
  const int ids = job.integer_input("ids", {1, 3}, {2, 0, 2});
  const int table = job.parameter("table", {3, 2}, {1, 2, 3, 4, 5, 6});
  expect_near(value("embedding", kNone, {ids, table}, {1, 3, 2}), {5, 6, 1, 2, 5, 6});
  expect_near(outcome.at("grad.table.0"), {1, 1, 0, 0, 2, 2});
}

TEST_F(OneOp, PositionEmbeddingAddsTheFirstRowsToEverySequence) {
  const int x = job.input("x", {2, 2, 1}, {10, 20, 30, 40});
  const int table = job.parameter("table", {3, 1}, {1, 2, 3});
  expect_near(value("position_embedding", kNone, {x, table}, {2, 2, 1}), {11, 22, 31, 42});
}

TEST_F(OneOp, PositionEmbeddingAddsTheRowsOfGivenPositions) {
  const int x = job.input("x", {2, 2, 1}, {10, 20, 30, 40});
  const int table = job.parameter("table", {3, 1}, {1, 2, 3});
  const int positions = job.integer_input("positions", {2, 2}, {0, 0, 1, 2});
  expect_near(value("position_embedding", kNone, {x, table, positions}, {2, 2, 1}), {11, 21, 32, 43});
  expect_near(outcome.at("grad.table.0"), {2, 1, 1});
}

TEST_F(OneOp, LinearMultipliesByTheTransposedWeightAndAddsTheBias) {
  const int x = job.input("x", {1, 2, 2}, {1, 2, 3, 4});
  const int w = job.parameter("w", {3, 2}, {1, 0, 0, 1, 1, 1});
  const int b = job.parameter("b", {3}, {100, 200, 300});
  expect_near(value("linear", kNone, {x, w, b}, {1, 2, 3}), {101, 202, 303, 103, 204, 307});
}

TEST_F(OneOp, LinearTakesHeadsAsOneRow) {
  const int x = job.input("x", {1, 1, 2, 2}, {1, 2, 3, 4});
  const int w = job.parameter("w", {1, 4}, {1, 10, 100, 1000});
  expect_near(value("linear", kNone, {x, w, kLeftOut}, {1, 1, 1}), {4321});
}

TEST_F(OneOp, LayernormCentersAndScales) {
  const int x = job.input("x", {1, 1, 2}, {1, 5});
  const int w = job.parameter("w", {2}, {2, 3});
  const int b = job.parameter("b", {2}, {10, 20});
  const double unit = 2 / std::sqrt(4 + 0.5);
  expect_near(value("layernorm", {{"eps", 0.5}}, {x, w, b}, {1, 1, 2}), {10 - 2 * unit, 20 + 3 * unit});
}

TEST_F(OneOp, LayernormDoesWithoutABias) {
  const int x = job.input("x", {1, 1, 2}, {-2, 2});
  const int w = job.parameter("w", {2}, {1, 3});
  expect_near(value("layernorm", {{"eps", 0.0}}, {x, w, kLeftOut}, {1, 1, 2}), {-1, 3});
}

TEST_F(OneOp, RmsnormScalesRowsOfHeads) {
  const int x = job.input("x", {1, 1, 2, 2}, {3, 4, -6, 8});
  const int w = job.parameter("w", {2}, {1, 2});
  const double first = std::sqrt(12.5 + 0.25), second = std::sqrt(50 + 0.25);
  expect_near(value("rmsnorm", {{"eps", 0.25}}, {x, w}, {1, 1, 2, 2}),
              {3 / first, 8 / first, -6 / second, 16 / second});
}

TEST_F(OneOp, SplitHeadsCutsAtItsOffset) {
  const int x = job.input("x", {1, 2, 6}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  expect_near(value("split_heads", {{"offset", 2}, {"heads", 2}, {"head_dim", 2}}, {x}, {1, 2, 2, 2}),
              {2, 3, 4, 5, 8, 9, 10, 11});
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

TEST_F(OneOp, BlockDiagonalPlacesTheBlocksOfEachPart) {
  const int x = job.parameter("x", {4, 1}, {1, 2, 3, 4});
  expect_near(value("block_diagonal", {{"groups", 2}, {"first_column", 1}}, {x}, {4, 4}),
              {0, 1, 0, 0, 0, 0, 2, 0, 0, 3, 0, 0, 0, 0, 4, 0});
}

// Of three targets the outer two have adapters, of rank 2.
TEST_F(OneOp, AdapterMatrixPlacesEachAdaptersRowsInItsColumns) {
  const int x = job.parameter("x", {4, 2}, {1, 2, 0, 0, 3, 4, 5, 6});
  expect_near(
      value("adapter_matrix", {{"scale", 2.0}, {"first_0", 0}, {"rows_0", 1}, {"first_1", 2}, {"rows_1", 2}},
            {x}, {4, 4}),
      {2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 6, 8, 0, 0, 10, 12});
  expect_near(outcome.at("grad.x.0"), {2, 2, 0, 0, 2, 2, 2, 2});
}

TEST_F(OneOp, AdapterMatrixEndsWithZerosWhereTheJobHasNoMoreRows) {
  const int x = job.parameter("x", {1, 1}, {3});
  expect_near(value("adapter_matrix", {{"scale", 1.0}, {"first_0", 0}, {"rows_0", 1}}, {x}, {3, 1}),
              {3, 0, 0});
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

TEST_F(OneOp, ActivationsFollowTheirFormulas) {
  const Numbers x = {-3, -0.5, 0, 0.7, 40};
  const int in = job.input("x", {5}, x);
  Numbers gelu, tanh, silu, relu2;
  for (const double v : x) {
    gelu.push_back(v * 0.5 * (1 + std::erf(v / std::sqrt(2.0))));
    tanh.push_back(0.5 * v * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v))));
    silu.push_back(v / (1 + std::exp(-v)));
    relu2.push_back(v > 0 ? v * v : 0);
  }
  const std::vector<std::pair<std::string, Numbers>> cases = {
      {"gelu", gelu}, {"gelu_tanh", tanh}, {"silu", silu}, {"relu2", relu2}};
  for (const auto& [op, expected] : cases) {
    const int out = job.node(op, kNone, {in}, {5});
    job.root()["dump"].push_back(job.root()["graph"]["values"][out]["name"]);
    if (op == "gelu") job.sum_as_loss(out);
  }
  outcome = job.write_and_run();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].first);
    expect_near(outcome.at("act." + job.root()["dump"][i].get<std::string>() + ".0"), cases[i].second);
  }
}

TEST_F(OneOp, SwigluGatesWithTheFirstHalf) {
  const int x = job.input("x", {1, 4}, {1, -2, 10, 100});
  expect_near(value("swiglu", kNone, {x}, {1, 2}), {10 / (1 + std::exp(-1.0)), -200 / (1 + std::exp(2.0))});
}

TEST_F(OneOp, GegluWithErf) {
  const int x = job.input("x", {1, 2}, {1, 10});
  expect_near(value("geglu", {{"tanh", false}}, {x}, {1, 1}), {5 * (1 + std::erf(1 / std::sqrt(2.0)))});
}

TEST_F(OneOp, GegluWithTanh) {
  const int x = job.input("x", {1, 2}, {1, 10});
  expect_near(value("geglu", {{"tanh", true}}, {x}, {1, 1}),
              {5 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * 1.044715))});
}

TEST_F(OneOp, AddAdds) {
  const int a = job.input("a", {2}, {1, 2}), b = job.input("b", {2}, {10, 20});
  expect_near(value("add", kNone, {a, b}, {2}), {11, 22});
}

TEST_F(OneOp, DropoutKeepsWhatTheGeneratorSays) {
  const int x = job.input("x", {4, 4}, Numbers(16, 3.0));
  const std::uint32_t key = random_key(1337, 7, 5 * 65536);
  Numbers expected;
  int kept = 0;
  for (int i = 0; i < 16; ++i) {
    const bool keep = random_16_bits(key, i) >= 0x4000u;
    kept += keep;
    expected.push_back(keep ? 3.0 / 0.75 : 0.0);
  }
  ASSERT_TRUE(kept > 0 && kept < 16);
  expect_near(value("dropout", {{"p", 0.25}, {"site", 5}}, {x, rng_step(7)}, {4, 4}), expected);
}

TEST_F(OneOp, DropoutOfNothingNeedsNoStepCounter) {
  const int x = job.input("x", {2}, {1, 2});
  expect_near(value("dropout", {{"p", 0.0}}, {x, kLeftOut}, {2}), {1, 2});
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

TEST_F(OneOp, CrossEntropyCapsLogits) {
  const int logits = job.input("logits", {1, 2}, {3, -1});
  const int targets = job.integer_input("targets", {1}, {1});
  const double a = 2 * std::tanh(1.5), b = 2 * std::tanh(-0.5);
  expect_near(value("cross_entropy", {{"softcap", 2.0}}, {logits, targets}, {1}),
              {std::log(std::exp(a) + std::exp(b)) - b});
}

TEST_F(OneOp, CrossEntropySmoothsAndIgnores) {
  const int logits = job.input("logits", {3, 2}, {std::log(1.0), std::log(3.0), 5, 5, 0, std::log(4.0)});
  const int targets = job.integer_input("targets", {3}, {1, -100, 0});
  const double q1 = -std::log(0.25), q3 = -std::log(0.75), p1 = -std::log(0.2), p4 = -std::log(0.8);
  expect_near(
      value("cross_entropy", {{"label_smoothing", 0.2}, {"ignore_index", -100}}, {logits, targets}, {3}),
      {0.8 * q3 + 0.1 * (q1 + q3), 0, 0.8 * p1 + 0.1 * (p1 + p4)});
}

TEST_F(OneOp, MeanLossMultipliesTheSumByTheInverseCount) {
  const int rows = job.input("rows", {2, 2}, {1, 2, 3, 4}), inverse = job.input("inv", {1}, {0.25});
  expect_near(value("mean_loss", kNone, {rows, inverse}, {}), {2.5});
}

TEST_F(OneOp, MeanLossOfWeightedRows) {
  const int rows = job.input("rows", {2, 2}, {1, 2, 3, 4}), inverse = job.input("inv", {1}, {0.5});
  const int weights = job.input("weights", {2, 2}, {1, 0, -1, 2});
  expect_near(value("mean_loss", kNone, {rows, inverse, weights}, {}), {3});
}

TEST_F(OneOp, TokenScoreIsALinearLayerToOneNumber) {
  const int x = job.input("x", {1, 2, 3}, {1, 2, 3, -1, 0, 0.5}),
            weight = job.parameter("w", {3}, {2, -1, 4}), bias = job.parameter("b", {1}, {0.25});
  expect_near(value("token_score", kNone, {x, weight, bias}, {1, 2}), {12.25, 0.25});
  expect_near(outcome.at("grad.b.0"), {2});
}

TEST_F(OneOp, TokenScoreMayGiveItsInputNoGradient) {
  const int x = job.parameter("x", {1, 2}, {1, 2}), weight = job.parameter("w", {2}, {3, 4});
  const int bias = job.parameter("b", {1}, {0.5});
  expect_near(value("token_score", {{"detached", true}}, {x, weight, bias}, {1}), {11.5});
  expect_near(outcome.at("grad.x.0"), {0, 0});
  expect_near(outcome.at("grad.w.0"), {1, 2});
}

TEST_F(OneOp, TheTokensWithTheHighestScoresHavePlacesInTheirOrder) {
  const int scores = job.input("scores", {2, 4}, {0.5, 2, 0.5, 0.5, -1, -3, -1, -1});
  expect_near(value("choose_tokens", {{"chosen", 2}}, {scores, kLeftOut}, {2, 4}),
              {0, 1, -1, -1, 0, -1, 1, -1});
}

TEST_F(OneOp, AGivenChoiceOfTheLayerIsTakenAndCompared) {
  const int scores = job.input("scores", {1, 4}, {4, 3, 2, 1});
  const int given = job.integer_input("given", {1, 1, 4}, {-1, 0, 1, -1});
  expect_near(value("choose_tokens", {{"chosen", 2}}, {scores, given}, {1, 4}), {-1, 0, 1, -1});
  expect_near(outcome.at("choices.differing"), {0.5});
}

TEST_F(OneOp, ChosenTokensHaveThePlaces) {
  const int places = job.integer_input("places", {2, 4}, {-1, 0, 1, -1, 0, -1, -1, 1});
  expect_near(value("chosen_tokens", kNone, {places}, {2, 2}), {1, 2, 0, 3});
}

TEST_F(OneOp, TakenTokensAreRows) {
  const int x = job.parameter("x", {1, 3, 2}, {1, 2, 3, 4, 5, 6}),
            tokens = job.integer_input("t", {1, 2}, {0, 2});
  expect_near(value("take_tokens", kNone, {x, tokens}, {1, 2, 2}), {1, 2, 5, 6});
  expect_near(outcome.at("grad.x.0"), {1, 1, 0, 0, 1, 1});
}

TEST_F(OneOp, SpreadTokensAreRowsAmongZeros) {
  const int x = job.input("x", {1, 2, 2}, {1, 2, 5, 6}), tokens = job.integer_input("t", {1, 2}, {0, 2});
  expect_near(value("spread_tokens", kNone, {x, tokens}, {1, 3, 2}), {1, 2, 0, 0, 5, 6});
}

TEST_F(OneOp, GatedRowsAreTimesASigmoid) {
  const int x = job.input("x", {2, 2}, {1, 2, 3, 4}), score = job.input("s", {2}, {0, std::log(3)});
  expect_near(value("gate_rows", kNone, {x, score}, {2, 2}), {0.5, 1, 2.25, 3});
}

TEST_F(OneOp, ChoiceLossIsBinaryCrossEntropy) {
  const int logits = job.input("logits", {1, 3}, {std::log(3), std::log(3), 0});
  const int places = job.integer_input("places", {1, 3}, {0, -1, 1});
  expect_near(value("choice_loss", kNone, {logits, places}, {1, 3}),
              {std::log(4.0 / 3), std::log(4), std::log(2)});
}

TEST_F(OneOp, AuxiliaryLossIsTheWeightedSum) {
  const int rows = job.input("rows", {2, 2}, {1, 2, 3, 4});
  expect_near(value("auxiliary_loss", {{"weight", 0.5}, {"warmup_steps", 0}}, {rows, kLeftOut}, {}), {5});
}

TEST_F(OneOp, AuxiliaryLossGrowsWithTheSteps) {
  const int rows = job.input("rows", {2, 2}, {1, 2, 3, 4}), step = job.integer_input("step", {}, {2});
  expect_near(value("auxiliary_loss", {{"weight", 0.5}, {"warmup_steps", 6}}, {rows, step}, {}), {2.5});
}

TEST_F(OneOp, AuxiliaryLossIsWholeBehindItsWarmup) {
  const int rows = job.input("rows", {2, 2}, {1, 2, 3, 4}), step = job.integer_input("step", {}, {2});
  expect_near(value("auxiliary_loss", {{"weight", 0.5}, {"warmup_steps", 2}}, {rows, step}, {}), {5});
}

// Vectors at angles of 60, 90 and 150 degrees to each other, of any length; and equal ones.
TEST_F(OneOp, PairwiseCosineDistanceIsTheMeanOverPairs) {
  const int x = job.parameter("x", {2, 3, 2}, {2, 0, 0.5, std::sqrt(0.75), 0, 3, 1, 1, 2, 2, 3, 3});
  const double half = 0.5, root = std::sqrt(0.75);
  expect_near(value("pairwise_cosine_distance", {{"eps", 0.0}}, {x}, {2}), {1 - (half + root + 0) / 3, 0});
}

TEST_F(OneOp, MseIgnoresMissingTargets) {
  const double missing = std::numeric_limits<double>::quiet_NaN();
  const int x = job.parameter("x", {2, 2}, {1, 2, 3, 4});
  const int targets = job.input("targets", {2, 2}, {0, 0, missing, 2});
  expect_near(value("mse", kNone, {x, targets}, {2}), {2.5, 2});
  expect_near(outcome.at("grad.x.0"), {1, 2, 0, 2});
}

// Layer l reads slot l and writes slot l + 1; its dropout has its own mask.
TEST_F(OneOp, RegionsRunOnceALayer) {
  const int x = job.parameter("x", {8}, Numbers(8, 1.0));
  const int state = job.activation("state", {8}, 3), rng = rng_step(2);
  job.raw_node({{"op", "add"}, {"inputs", {fixed_slot(x), fixed_slot(x)}}, {"outputs", {fixed_slot(state)}}});
  job.region("block", 2);
  job.raw_node({{"op", "dropout"},
                {"attrs", {{"p", 0.5}, {"site", 1}}},
                {"inputs", {layer_slot(state), fixed_slot(rng)}},
                {"outputs", {layer_slot(state, 1)}}});
  job.region("epilogue");
  const int last = job.activation("last", {8});
  job.raw_node(
      {{"op", "add"}, {"inputs", {fixed_slot(state, 2), fixed_slot(x)}}, {"outputs", {fixed_slot(last)}}});
  job.sum_as_loss(last);
  job.root()["dump"] = {"state", "last"};
  outcome = job.write_and_run();
  Numbers expected(8, 2.0);
  expect_near(outcome.at("act.state.0"), expected);
  for (int layer = 0; layer < 2; ++layer) {
    const std::uint32_t key = random_key(1337, 2, 65536 + layer);
    for (int i = 0; i < 8; ++i) expected[i] *= random_16_bits(key, i) >= 0x8000u ? 2 : 0;
    expect_near(outcome.at("act.state." + std::to_string(layer + 1)), expected);
  }
  for (double& number : expected) number += 1;
  expect_near(outcome.at("act.last.0"), expected);
}

}  // namespace
}  // namespace hydrac::oracle
