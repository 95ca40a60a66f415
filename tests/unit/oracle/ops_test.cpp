// Each operation against values computed by hand, or by a loop that spells out its formula: here those of
// layers; attention's, routers' and losses' have files of their own.
#include <gtest/gtest.h>

#include <cmath>

#include "one_op.h"
#include "oracle/job/random.h"

namespace hydrac::oracle {
namespace {

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
