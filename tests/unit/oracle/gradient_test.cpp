// The gradients that the oracle reports against central differences of the losses that it reports.
#include <gtest/gtest.h>

#include <cmath>

#include "small_model.h"

namespace hydrac::oracle {
namespace {

// Moves all parameters together along a direction that favours none, forth and back.
void expect_gradients_are_slopes(JobFolder& job, double seed) {
  const Outcome base = job.write_and_run();
  ASSERT_EQ(base.exit_code, 0) << base.err;
  constexpr double kStep = 3e-6;
  double slope = 0, losses[2] = {};
  std::map<std::string, Numbers> start, direction;
  for (const auto& [name, gradient] : base.values) {
    if (!name.starts_with("grad.")) continue;
    const std::string tensor = name.substr(5);
    start[tensor] = job.data(tensor);
    direction[tensor] = wavy(gradient.size(), seed + static_cast<double>(start.size()));
    double share = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) share += gradient[i] * direction[tensor][i];
    EXPECT_GT(std::abs(share), 1e-6) << "an error in the gradient of " << tensor << " would not be seen";
    slope += share;
  }
  EXPECT_GE(start.size(), 10u);
  for (const int side : {0, 1}) {
    for (const auto& [tensor, numbers] : start)
      for (std::size_t i = 0; i < numbers.size(); ++i)
        job.data(tensor)[i] = numbers[i] + (side ? kStep : -kStep) * direction[tensor][i];
    losses[side] = job.write_and_run().scalar("loss.s0");
  }
  EXPECT_NEAR(slope, (losses[1] - losses[0]) / (2 * kStep), 1e-8);
  for (const auto& [tensor, numbers] : start) job.data(tensor) = numbers;
}

TEST(Gradient, OfASmallGptIsTheSlopeOfItsLoss) {
  JobFolder job;
  build_gpt(job);
  for (const double seed : {100, 200}) expect_gradients_are_slopes(job, seed);
}

TEST(Gradient, OfASmallLlamaIsTheSlopeOfItsLoss) {
  JobFolder job;
  build_llama(job);
  for (const double seed : {100, 200}) expect_gradients_are_slopes(job, seed);
}

}  // namespace
}  // namespace hydrac::oracle
