// Optimizers as graph updates against the formulas of their papers.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "optimizer_reference.h"
#include "small_models.h"

namespace hydrac::test {
namespace {

class Update : public testing::TestWithParam<const char*> {};

TEST_P(Update, EqualsItsFormulaForThreeSteps) {
  const spec::Spec spec =
      small_spec(kModel, std::string("sequence_len: 4, micro_batch_size: 1, max_grad_norm: 0.5, "
                                     "gradient_accumulation_steps: 2, lr_scheduler: {name: constant}, ") +
                             GetParam());
  const SmallModel small(spec, {.accumulate = true, .all_functions = true, .fuse = true, .in_place = true});
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  const ir::Use pack{small.pack.parameters, {}}, gradients{small.pack.groups[0].gradients, {}};
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
    EXPECT_NEAR(interpreter.read_scalar(small.graph.results.grad_norm), norm, 1e-12);
    ASSERT_GT(norm, 0.5);  // so that clipping is at work
    step_of(spec, reference, gradient, 0.5 / (norm + 1e-6), spec.train.optimizer.learning_rate,
            small.pack.groups[0].decayed_rows * models::kPackRow, step);
    const std::vector<double> found = interpreter.read(pack);
    for (size_t i = 0; i < size; ++i)
      ASSERT_NEAR(found[i], reference.p[i], 1e-12) << "step " << step << " element " << i;
    EXPECT_EQ(interpreter.read(gradients),
              std::vector<double>(size, 0.0));  // for the next step's micro-batches
    EXPECT_EQ(interpreter.read_scalar(small.model->graph.results.loss), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Update,
                         testing::Values("optimizer: {name: adamw, learning_rate: 0.01, weight_decay: 0.1}",
                                         "optimizer: {name: adamw, learning_rate: 0.01, betas: [0, 0.9]}",
                                         "optimizer: {name: lion, learning_rate: 0.01, weight_decay: 0.2}",
                                         "optimizer: {name: sgd, learning_rate: 0.1, weight_decay: 0.01}",
                                         "optimizer: {name: sgd, learning_rate: 0.1, momentum: 0}"));

class Decay : public testing::TestWithParam<const char*> {};

// All gradients are 0, so that only decay moves the weights.
TEST_P(Decay, ShrinksMatricesByRateTimesDecayEachStep) {
  const spec::Spec spec = small_spec(
      kModel, std::string("sequence_len: 4, micro_batch_size: 1, lr_scheduler: {name: constant}, "
                          "gradient_accumulation_steps: 2, optimizer: {learning_rate: 0.1, weight_decay: "
                          "0.5, name: ") +
                  GetParam() + "}");
  const SmallModel small(spec, {.accumulate = true, .all_functions = true, .fuse = true, .in_place = true});
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  std::vector<std::vector<double>> before;
  for (const models::ParameterGroup& group : small.pack.groups)
    before.push_back(interpreter.read({group.parameters, {}}));
  for (int step = 0; step < 3; ++step) interpreter.run("update");
  for (size_t g = 0; g < before.size(); ++g) {
    const models::ParameterGroup& group = small.pack.groups[g];
    const std::vector<double> after = interpreter.read({group.parameters, {}});
    const auto decayed = static_cast<size_t>(group.decayed_rows * models::kPackRow);
    for (size_t i = 0; i < after.size(); ++i)
      ASSERT_NEAR(after[i], before[g][i] * (i < decayed ? 0.95 * 0.95 * 0.95 : 1), 1e-12) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Decay, testing::Values("adamw", "lion", "sgd", "muon"));

// rows x columns, row-major.
struct Matrix {
  size_t rows = 0, columns = 0;
  std::vector<double> data;

  Matrix times(const Matrix& other) const {
    Matrix product{rows, other.columns, std::vector<double>(rows * other.columns, 0)};
    for (size_t i = 0; i < rows; ++i) {
      for (size_t k = 0; k < columns; ++k) {
        for (size_t j = 0; j < other.columns; ++j)
          product.data[i * other.columns + j] += data[i * columns + k] * other.data[k * other.columns + j];
      }
    }
    return product;
  }
  Matrix transposed() const {
    Matrix result{columns, rows, std::vector<double>(data.size())};
    for (size_t i = 0; i < data.size(); ++i) result.data[i % columns * rows + i / columns] = data[i];
    return result;
  }
  Matrix plus(double factor, const Matrix& other, double other_factor) const {
    Matrix sum = *this;
    for (size_t i = 0; i < data.size(); ++i) sum.data[i] = factor * data[i] + other_factor * other.data[i];
    return sum;
  }
};

// X = a X + b (X X^T) X + c (X X^T)^2 X, five times, for a matrix of any shape.
Matrix newton_schulz(Matrix x) {
  double squares = 0;
  for (double number : x.data) squares += number * number;
  for (double& number : x.data) number /= std::sqrt(squares) + 1e-7;
  for (int i = 0; i < 5; ++i) {
    const Matrix cubed = x.times(x.transposed()).times(x), fifth = x.times(x.transposed()).times(cubed);
    x = x.plus(3.4445, cubed, -4.7750).plus(1, fifth, 2.0315);
  }
  return x;
}

using Tensors = std::map<std::pair<ir::ValueId, int>, std::vector<double>>;  // by value and slot

// What a step of Muon makes of one parameter's slot.
void muon_step(const spec::Spec& spec, const ir::Value& parameter, std::vector<double>& p,
               std::vector<double>& m, const std::vector<double>& gradient, double clip) {
  const auto& o = spec.train.optimizer;
  const auto columns = static_cast<size_t>(parameter.shape[1].size);
  for (const ir::RowRange& range : parameter.parameter->matrices) {
    const auto first = static_cast<size_t>(range.first) * columns, rows = static_cast<size_t>(range.count);
    Matrix u{rows, columns, std::vector<double>(rows * columns)};
    for (size_t i = 0; i < u.data.size(); ++i) {
      m[first + i] = o.momentum * m[first + i] + clip * gradient[first + i];
      u.data[i] = clip * gradient[first + i] + o.momentum * m[first + i];
    }
    const Matrix x = newton_schulz(std::move(u));
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    for (size_t i = 0; i < x.data.size(); ++i) {
      double& number = p[first + i];
      number -= o.learning_rate * (o.weight_decay * number + scale * x.data[i]);
    }
  }
}

class Muon : public testing::TestWithParam<const char*> {};

TEST_P(Muon, OrthogonalizesTheBlocksMatricesAndLeavesTheRestToAdamw) {
  const spec::Spec spec = small_spec(
      "hidden_size: 8, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 11, "
      "intermediate_size: 6",
      std::string("sequence_len: 5, micro_batch_size: 2, max_grad_norm: 0.5, lr_scheduler: {name: constant}, "
                  "gradient_accumulation_steps: 2, optimizer: {name: muon, learning_rate: 0.01}") +
          GetParam());
  const SmallModel small(spec, {.accumulate = true, .all_functions = true, .fuse = true, .in_place = true});
  ASSERT_EQ(ir::verify(small.graph), std::vector<std::string>{});
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  Tensors p, m;
  Reference rest;
  const auto for_each_matrix = [&](const auto& visit) {
    for (const ir::Value& value : small.graph.values) {
      for (int slot = 0; slot < value.slots; ++slot) {
        if (value.trains() && !value.parameter->matrices.empty()) visit(value, slot);
      }
    }
  };
  for_each_matrix([&](const ir::Value& value, int slot) {
    p[{value.id, slot}] = interpreter.read({value.id, {false, slot}});
    m[{value.id, slot}].assign(p[{value.id, slot}].size(), 0);
  });
  ASSERT_EQ(small.pack.groups.size(), 2u);
  const models::ParameterGroup& others = small.pack.groups[1];
  EXPECT_EQ(others.optimizer, spec::Optimizer::adamw);
  rest.p = interpreter.read({others.parameters, {}});
  rest.m.assign(rest.p.size(), 0);
  rest.v = rest.m;
  for (int step = 0; step < 3; ++step) {
    interpreter.run("micro_step");
    interpreter.run("micro_step");
    double square = 0;
    for (const models::ParameterGroup& group : small.pack.groups) {
      for (double g : interpreter.read({group.gradients, {}})) square += g * g;
    }
    const double clip = 0.5 / (std::sqrt(square) + 1e-6);
    ASSERT_LT(clip, 1);
    for_each_matrix([&](const ir::Value& value, int slot) {
      muon_step(spec, value, p[{value.id, slot}], m[{value.id, slot}],
                interpreter.read({small.gradient_of(value.id), {false, slot}}), clip);
    });
    step_of(spec, rest, interpreter.read({others.gradients, {}}), clip, spec.train.optimizer.learning_rate,
            others.decayed_rows * models::kPackRow, step);
    interpreter.run("update");
    EXPECT_NEAR(interpreter.read_scalar(small.graph.results.grad_norm), std::sqrt(square), 1e-12);
    for_each_matrix([&](const ir::Value& value, int slot) {
      const std::vector<double> found = interpreter.read({value.id, {false, slot}});
      const std::vector<double>& expected = p[{value.id, slot}];
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-9) << value.name << " slot " << slot << " element " << i;
    });
    const std::vector<double> found = interpreter.read({others.parameters, {}});
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], rest.p[i], 1e-12) << "element " << i;
    for (const models::ParameterGroup& group : small.pack.groups) {
      const std::vector<double> gradients = interpreter.read({group.gradients, {}});
      EXPECT_EQ(gradients, std::vector<double>(gradients.size(), 0.0));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Muon,
                         testing::Values("", ", freeze: ['model.layers.1.*', model.embed_tokens.weight]"));

}  // namespace
}  // namespace hydrac::test
