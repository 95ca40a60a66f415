// Routers: scores of tokens, the choice among them, what moves the chosen ones, and a router's loss.
#include <gtest/gtest.h>

#include <cmath>

#include "one_op.h"

namespace hydrac::oracle {
namespace {

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

}  // namespace
}  // namespace hydrac::oracle
