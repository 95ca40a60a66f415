// Users' functions in the oracle: each operation and its gradient by hand, and what is wrong in a job.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "job_folder.h"
#include "oracle/job/error.h"
#include "oracle/job/expression.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

class OneFunction : public ::testing::Test {
 protected:
  // Runs a job around a node with this function, whose outputs are summed as the loss.
  Outcome run(const std::string& op, const json& function, const std::vector<int>& inputs,
              const Shape& shape) {
    const int out = job.node(op, json::object(), inputs, shape);
    json& nodes = job.root()["graph"]["regions"][0]["nodes"];
    nodes.back()["function"] = function;
    job.sum_as_loss(out);
    job.root()["dump"] = {job.root()["graph"]["values"][out]["name"]};
    Outcome outcome = job.write_and_run();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    value = outcome.at("act." + job.root()["dump"][0].get<std::string>() + ".0");
    return outcome;
  }

  JobFolder job;
  Numbers value;
};

// Two-element lists that begin with a text would make an object of themselves.
json function_of(int parameters, std::initializer_list<json> nodes) {
  return {
      {"parameters", parameters}, {"nodes", json(std::vector<json>(nodes))}, {"result", nodes.size() - 1}};
}

struct Unary {
  const char* op;
  double at, value, slope;
};

TEST_F(OneFunction, UnaryOperationsAndTheirGradients) {
  const double e = std::exp(0.5), c = std::cosh(0.5), s = 1 / (1 + std::exp(-0.5));
  const std::vector<Unary> cases = {
      {"neg", 0.5, -0.5, -1},
      {"abs", -0.5, 0.5, -1},
      {"abs", 0, 0, 0},
      {"exp", 0.5, e, e},
      {"expm1", 0.5, std::expm1(0.5), e},
      {"log", 0.5, std::log(0.5), 2},
      {"log1p", 0.5, std::log(1.5), 1 / 1.5},
      {"tanh", 0.5, std::tanh(0.5), 1 / (c * c)},
      {"erf", 0.5, std::erf(0.5), 2 / std::sqrt(std::acos(-1)) * std::exp(-0.25)},
      {"sqrt", 0.25, 0.5, 1},
      {"sigmoid", 0.5, s, s * (1 - s)},
      {"sin", 0.5, std::sin(0.5), std::cos(0.5)},
      {"cos", 0.5, std::cos(0.5), -std::sin(0.5)}};
  int sum = -1;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const json function = function_of(1, {{"argument", 0}, {cases[i].op, 0}});
    EXPECT_NEAR(evaluate(read_expression(JsonReader(function, "")), {cases[i].at}), cases[i].value, 1e-14)
        << cases[i].op;
    const int x = job.parameter("x" + std::to_string(i), {1}, {cases[i].at});
    const int y = job.node("activation", json::object(), {x}, {1});
    job.root()["graph"]["regions"][0]["nodes"].back()["function"] = function;
    job.root()["dump"].push_back(job.root()["graph"]["values"][y]["name"]);
    sum = sum < 0 ? y : job.node("add", json::object(), {sum, y}, {1});
  }
  job.sum_as_loss(sum);
  const Outcome outcome = job.write_and_run();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].op);
    EXPECT_NEAR(outcome.at("act." + job.root()["dump"][i].get<std::string>() + ".0")[0], cases[i].value,
                1e-14);
    EXPECT_NEAR(outcome.at("grad.x" + std::to_string(i) + ".0")[0], cases[i].slope, 1e-14);
  }
}

TEST_F(OneFunction, EqualOnesGiveTheirGradientToTheFirst) {
  const int x = job.parameter("x", {1, 6}, {3, 1, 2, 3, 5, 2});
  const Outcome outcome = run("gated",
                              function_of(2, {{"argument", 0},
                                              {"argument", 1},
                                              {"max", 0, 1},
                                              {"min", 0, 1},
                                              {"constant", 10},
                                              {"mul", 3, 4},
                                              {"add", 2, 5}}),
                              {x}, {1, 3});
  EXPECT_EQ(value, (Numbers{33, 15, 22}));
  EXPECT_EQ(outcome.at("grad.x.0"), (Numbers{11, 10, 11, 0, 1, 0}));
}

TEST_F(OneFunction, ChoicesAreDifferentiatedBranchByBranch) {
  const int x = job.parameter("x", {5}, {-2, -1, 0, 1, 2});
  const json function = function_of(1, {{"argument", 0},
                                        {"constant", 1},
                                        {"less", 1, 0},
                                        {"equal", 0, 1},
                                        {"logical_or", 2, 3},
                                        {"constant", -1},
                                        {"less_equal", 0, 5},
                                        {"logical_not", 6},
                                        {"logical_and", 7, 4},
                                        {"pow", 0, 2},
                                        {"select", 8, 9, 0}});
  const Outcome outcome = run("activation", function, {x}, {5});
  EXPECT_EQ(value, (Numbers{-2, -1, 0, 1, 4}));
  EXPECT_EQ(outcome.at("grad.x.0"), (Numbers{1, 1, 1, 2, 4}));
}

TEST_F(OneFunction, MissingTargetsCountNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const int y = job.parameter("y", {1, 2, 2}, {1, 2, 3, 4});
  const int targets = job.input("targets", {1, 2, 2}, {0, nan, 5, 4});
  const Outcome outcome =
      run("pointwise_loss", function_of(2, {{"argument", 0}, {"argument", 1}, {"sub", 0, 1}, {"abs", 2}}),
          {y, targets}, {1, 2});
  EXPECT_EQ(value, (Numbers{0.5, 1}));
  EXPECT_EQ(outcome.at("grad.y.0"), (Numbers{0.5, 0, -0.5, 0}));
}

TEST(Expression, WhatIsWrongInIt) {
  const auto message_of = [](const json& function) {
    try {
      read_expression(JsonReader(function, "f"));
    } catch (const JobError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message_of(function_of(3, {{"argument", 0}})), "f.parameters must be an integer from 1 to 2");
  EXPECT_EQ(message_of(function_of(1, {})), "f.nodes is empty");
  EXPECT_EQ(message_of(function_of(1, {{"argument", 1}})), "f.nodes[0]: there is no such parameter");
  EXPECT_EQ(message_of(function_of(1, {{"argument", 0}, {"exp", 1}})),
            "f.nodes[1]: operands must be earlier nodes");
  EXPECT_EQ(message_of(function_of(1, {{"argument", 0}, {"exp", 0, 0}})), "f.nodes[1]: exp has 2 operands");
  EXPECT_EQ(message_of(function_of(1, {{"argument", 0}, {"gamma", 0}})),
            "f.nodes[1]: unknown operation \"gamma\"");
  EXPECT_EQ(message_of(function_of(1, {{"constant", "x"}})), "f.nodes[0] must end with a number");
  EXPECT_EQ(message_of(function_of(1, {json(7)})), "f.nodes[0] must be a list that begins with an operation");
}

}  // namespace
}  // namespace hydrac::oracle
