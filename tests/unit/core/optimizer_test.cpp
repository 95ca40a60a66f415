// Optimizers and schedules as graph updates against the formulas of their papers in plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "own_functions.h"
#include "small_models.h"

namespace hydrac::test {
namespace {

constexpr const char* kModel =
    "hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, vocab_size: 5, intermediate_size: 4";

struct Reference {
  std::vector<double> p, m, v;
};

void step_of(const spec::Spec& spec, Reference& r, const std::vector<double>& gradient, double clip,
             double rate, int64_t decayed, int step) {
  const auto& o = spec.train.optimizer;
  const auto [b1, b2] = o.betas;
  for (size_t i = 0; i < r.p.size(); ++i) {
    const double g = gradient[i] * clip, decay = static_cast<int64_t>(i) < decayed ? o.weight_decay : 0;
    switch (o.name) {
      case spec::Optimizer::adamw:
        r.m[i] = b1 * r.m[i] + (1 - b1) * g;
        r.v[i] = b2 * r.v[i] + (1 - b2) * g * g;
        r.p[i] -= rate * decay * r.p[i];
        r.p[i] -= rate * (r.m[i] / (1 - std::pow(b1, step + 1))) /
                  (std::sqrt(r.v[i] / (1 - std::pow(b2, step + 1))) + o.eps);
        break;
      case spec::Optimizer::lion: {
        const double c = b1 * r.m[i] + (1 - b1) * g;
        r.p[i] -= rate * ((c > 0) - (c < 0) + decay * r.p[i]);
        r.m[i] = b2 * r.m[i] + (1 - b2) * g;
        break;
      }
      case spec::Optimizer::sgd:
        r.m[i] = o.momentum * r.m[i] + g + decay * r.p[i];
        r.p[i] -= rate * r.m[i];
    }
  }
}

class Update : public testing::TestWithParam<const char*> {};

TEST_P(Update, EqualsItsFormulaForThreeSteps) {
  const spec::Spec spec =
      small_spec(kModel, std::string("sequence_len: 4, micro_batch_size: 1, max_grad_norm: 0.5, "
                                     "gradient_accumulation_steps: 2, lr_scheduler: {name: constant}, ") +
                             GetParam());
  const SmallModel small(spec, {.accumulate = true, .all_functions = true, .fuse = true, .in_place = true});
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  const ir::Use pack{small.pack.parameters, {}}, gradients{small.pack.sections[0].gradients, {}};
  const size_t size = interpreter.read(pack).size();
  Reference reference{interpreter.read(pack), std::vector<double>(size, 0), std::vector<double>(size, 0)};
  for (int step = 0; step < 3; ++step) {
    interpreter.run("micro_step");
    interpreter.run("micro_step");
    const std::vector<double> gradient = interpreter.read(gradients);
    double square = 0;
    for (double g : gradient) square += g * g;
    const double norm = std::sqrt(square);
    interpreter.run("update");
    EXPECT_NEAR(interpreter.read_scalar(small.metrics.grad_norm), norm, 1e-12);
    ASSERT_GT(norm, 0.5);  // so that clipping is at work
    step_of(spec, reference, gradient, 0.5 / (norm + 1e-6), spec.train.optimizer.learning_rate,
            small.pack.sections[0].decayed_rows * models::kPackRow, step);
    const std::vector<double> found = interpreter.read(pack);
    for (size_t i = 0; i < size; ++i)
      ASSERT_NEAR(found[i], reference.p[i], 1e-12) << "step " << step << " element " << i;
    EXPECT_EQ(interpreter.read(gradients),
              std::vector<double>(size, 0.0));  // for the next step's micro-batches
    EXPECT_EQ(interpreter.read_scalar(small.model->interface.loss), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Update,
                         testing::Values("optimizer: {name: adamw, learning_rate: 0.01, weight_decay: 0.1}",
                                         "optimizer: {name: adamw, learning_rate: 0.01, betas: [0, 0.9]}",
                                         "optimizer: {name: lion, learning_rate: 0.01, weight_decay: 0.2}",
                                         "optimizer: {name: sgd, learning_rate: 0.1, weight_decay: 0.01}",
                                         "optimizer: {name: sgd, learning_rate: 0.1, momentum: 0}"));

double rate_at(const std::string& scheduler, int step) {
  const SmallModel small(
      small_spec(kModel,
                 "sequence_len: 4, micro_batch_size: 1, optimizer: {learning_rate: 2}, lr_scheduler: {" +
                     scheduler + "}"),
      {.all_functions = true});
  Interpreter interpreter(small.graph);
  interpreter.write({small.graph.find("step"), {}}, {static_cast<double>(step)});
  interpreter.run("update");
  EXPECT_EQ(interpreter.read_scalar(small.graph.find("step")), step + 1);
  return interpreter.read_scalar(small.metrics.learning_rate);
}

// 100 steps in all.
TEST(Schedule, WarmsUpAndDecays) {
  EXPECT_DOUBLE_EQ(rate_at("name: constant, warmup_steps: 10", 0), 2 * 0.1);
  EXPECT_DOUBLE_EQ(rate_at("name: constant, warmup_steps: 10", 9), 2);
  EXPECT_DOUBLE_EQ(rate_at("name: constant, warmup_steps: 10", 99), 2);
  EXPECT_DOUBLE_EQ(rate_at("name: linear, warmup_steps: 20, min_ratio: 0.1", 20), 2);
  EXPECT_DOUBLE_EQ(rate_at("name: linear, warmup_steps: 20, min_ratio: 0.1", 60), 2 * (1 - 0.9 * 0.5));
  EXPECT_NEAR(rate_at("name: cosine, warmup_steps: 20, min_ratio: 0.1", 40),
              2 * (0.1 + 0.9 * (1 + std::cos(std::numbers::pi / 4)) / 2), 1e-14);
  EXPECT_NEAR(rate_at("name: cosine, decay_steps: 50, min_ratio: 0.1", 80), 0.2, 1e-14);
  EXPECT_DOUBLE_EQ(rate_at("name: wsd, min_ratio: 0, decay_steps: 20", 79), 2);
  EXPECT_DOUBLE_EQ(rate_at("name: wsd, min_ratio: 0, decay_steps: 20", 90), 1);
}

TEST(Schedule, IsAFunctionOfTheUsers) {
  const std::string stairs = "name: " OWN_CURVE;
  EXPECT_DOUBLE_EQ(rate_at(stairs, 0), 2);
  EXPECT_DOUBLE_EQ(rate_at(stairs, 12), 2);
  EXPECT_DOUBLE_EQ(rate_at(stairs, 13), 1);
  EXPECT_DOUBLE_EQ(rate_at(stairs, 99), 2 * std::pow(0.5, 7));
  EXPECT_DOUBLE_EQ(rate_at(stairs + ", warmup_steps: 20", 9), 1);
  EXPECT_DOUBLE_EQ(rate_at(stairs + ", warmup_steps: 20", 25), 0.5);
  EXPECT_NEAR(rate_at("name: " OWN_FLOAT_CURVE, 40), 2 * std::pow(0.5, 3), 1e-7);
}

}  // namespace
}  // namespace hydrac::test
