// A job around one operation, whose value is compared with one computed by hand or by a loop.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "job_folder.h"

namespace hydrac::oracle {

inline void expect_near(const Numbers& actual, const Numbers& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], 1e-12) << "element " << i;
}

// A job around one node; value() is what the node computed.
class OneOp : public ::testing::Test {
 protected:
  Numbers value(const std::string& op, const nlohmann::json& attrs, const std::vector<int>& inputs,
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

}  // namespace hydrac::oracle
