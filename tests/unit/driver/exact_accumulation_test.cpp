// optimizations.exact_accumulation on GPUs: one that accumulates two micro-batches computes each one's
// gradients by the same matmuls as two ranks with one each, so that both round alike.
#include <gtest/gtest.h>

#include <set>

#include "driver/compile.h"
#include "program/for_each_call.h"
#include "tests/unit/driver/h100_spec.h"

namespace hydrac::driver {
namespace {

std::multiset<program::GemmShape> matmuls_of_a_micro_batch(const std::vector<std::string>& overrides) {
  const Compiled c = compile(h100_spec("optimizations: {streams: 2, exact_accumulation: true}\n", overrides),
                             CompileOptions{});
  std::multiset<program::GemmShape> shapes;
  const auto function = std::ranges::find(c.program.functions, "micro_step", &program::Function::name);
  program::for_each_call(*function, [&](const program::Section&, const program::Call& call, int, int) {
    if (const auto* gemm = std::get_if<program::Gemm>(&call.work)) shapes.insert(gemm->shape);
  });
  return shapes;
}

class ExactAccumulation : public testing::TestWithParam<const char*> {};

TEST_P(ExactAccumulation, HasTheMatmulsOfRanksWithOneMicroBatchEach) {
  const std::string precision = std::string("optimizations.precision=") + GetParam();
  const auto one = matmuls_of_a_micro_batch({precision, "train.gradient_accumulation_steps=2"});
  const auto ranks = matmuls_of_a_micro_batch({precision, "parallel.data=2"});
  EXPECT_FALSE(one.empty());
  EXPECT_TRUE(one == ranks);
  EXPECT_TRUE(std::ranges::any_of(one, &program::GemmShape::beside))
      << "weights' gradients are beside the rest";
}

INSTANTIATE_TEST_SUITE_P(Precisions, ExactAccumulation, testing::Values("fp32", "bf16", "fp16"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hydrac::driver
