// Optimizers and schedules as graph updates against the formulas of their papers in plain loops.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <set>

#include "cuda/types.cuh"
#include "hydrac/dynamic_code.h"
#include "hydrac/random.h"
#include "optimizers/rounding.h"
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
      case spec::Optimizer::muon:  // of what it leaves to AdamW
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
    EXPECT_NEAR(interpreter.read_scalar(small.metrics.grad_norm), norm, 1e-12);
    ASSERT_GT(norm, 0.5);  // so that clipping is at work
    step_of(spec, reference, gradient, 0.5 / (norm + 1e-6), spec.train.optimizer.learning_rate,
            small.pack.groups[0].decayed_rows * models::kPackRow, step);
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
    EXPECT_NEAR(interpreter.read_scalar(small.metrics.grad_norm), std::sqrt(square), 1e-12);
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

spec::Spec narrow_spec(const std::string& train) {
  spec::Spec spec =
      small_spec(kModel, "sequence_len: 4, micro_batch_size: 1, lr_scheduler: {name: constant}, " + train);
  spec.optimizations.weights = spec::WeightType::bf16;
  spec.optimizations.gradients = spec::GradientType::compute;
  spec.optimizations.optimizer_state = spec::StateType::bf16;
  return spec;
}

constexpr Stages kNarrow{
    .all_functions = true, .fuse = true, .in_place = true, .activations = ir::DType::bf16};

// Parameters and moments are what the formula gives, rounded with the noise of seed, step, section and
// element.
class NarrowUpdate : public testing::TestWithParam<const char*> {};

TEST_P(NarrowUpdate, RoundsTheFormulaWithTheNoiseOfEachElement) {
  const spec::Spec spec = narrow_spec(GetParam());
  const SmallModel small(spec, kNarrow);
  ASSERT_EQ(small.pack.groups.size(), 2u);
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  const auto rounded = [&](double x, int step, int64_t stream, size_t i) {
    const uint32_t key = random_key(77, static_cast<uint32_t>(step), optimizers::kRoundingSite) +
                         static_cast<uint32_t>(stream);
    return static_cast<double>(round_stochastically(static_cast<float>(x), random_16_bits(key, i)));
  };
  std::vector<Reference> references;
  for (const models::ParameterGroup& section : small.pack.groups) {
    const std::vector<double> p = interpreter.read({section.parameters, {}}), zeros(p.size(), 0);
    references.push_back({p, zeros, zeros});
  }
  for (int step = 0; step < 3; ++step) {
    interpreter.run("micro_step");
    interpreter.run("update");
    const double norm = interpreter.read_scalar(small.metrics.grad_norm);
    for (size_t s = 0; s < references.size(); ++s) {
      const models::ParameterGroup& section = small.pack.groups[s];
      Reference& r = references[s];
      step_of(spec, r, interpreter.read({section.gradients, {}}), std::min(1.0, 1 / (norm + 1e-6)),
              spec.train.optimizer.learning_rate, section.decayed_rows * models::kPackRow, step);
      const std::vector<double> found = interpreter.read({section.parameters, {}});
      for (size_t i = 0; i < r.p.size(); ++i) {
        const int64_t stream = optimizers::rounding_stream(static_cast<int64_t>(s), 0);
        r.p[i] = rounded(r.p[i], step, stream, i);
        r.m[i] = rounded(r.m[i], step, stream + 1, i);
        r.v[i] = rounded(r.v[i], step, stream + 2, i);
        ASSERT_EQ(found[i], r.p[i]) << "step " << step << " section " << s << " element " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, NarrowUpdate,
                         testing::Values("optimizer: {name: adamw, learning_rate: 0.01, weight_decay: 0.1}",
                                         "optimizer: {name: lion, learning_rate: 0.01, weight_decay: 0.2}",
                                         "optimizer: {name: sgd, learning_rate: 0.1, weight_decay: 0.01}"));

// What m and v are once they have been codes with a scale for each row.
void quantize(std::vector<double>& numbers, bool is_signed) {
  for (size_t first = 0; first < numbers.size(); first += models::kStateBlock) {
    double largest = 0;
    for (size_t i = first; i < first + models::kStateBlock; ++i)
      largest = std::max(largest, std::abs(numbers[i]));
    for (size_t i = first; i < first + models::kStateBlock && largest > 0; ++i) {
      const auto share = static_cast<float>(numbers[i] * (1 / largest));
      numbers[i] = largest * (is_signed ? signed_dynamic_value(signed_dynamic_code(share))
                                        : dynamic_value(dynamic_code(share)));
    }
  }
}

class QuantizedUpdate : public testing::TestWithParam<const char*> {};

TEST_P(QuantizedUpdate, IsTheFormulaOnMomentsOfEightBits) {
  spec::Spec spec = small_spec(
      "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 1, vocab_size: 70, intermediate_size: 16",
      std::string("sequence_len: 4, micro_batch_size: 1, lr_scheduler: {name: constant}, ") + GetParam());
  spec.optimizations.optimizer_state = spec::StateType::int8;
  const SmallModel small(spec, {.all_functions = true, .fuse = true, .in_place = true});
  std::map<std::string, ir::DType> types;
  std::vector<Reference> references;
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  for (const models::ParameterGroup& group : small.pack.groups) {
    for (const ir::ValueId member : group.members) {
      const ir::Value& parameter = small.graph.value(member);
      types[parameter.name] = group.moments;
      const int64_t start = parameter.view->offset + parameter.view->slot_stride;
      EXPECT_TRUE(group.moments != ir::DType::u8 || start % models::kStateBlock == 0) << parameter.name;
    }
    const std::vector<double> p = interpreter.read({group.parameters, {}}), zeros(p.size(), 0);
    references.push_back({p, zeros, zeros});
  }
  EXPECT_EQ(types, (std::map<std::string, ir::DType>{{"attn.out.weight", ir::DType::u8},
                                                     {"attn.qkv.weight", ir::DType::u8},
                                                     {"attn_norm.weight", ir::DType::f32},
                                                     {"mlp.down.weight", ir::DType::f32},
                                                     {"mlp.up.weight", ir::DType::f32},
                                                     {"mlp_norm.weight", ir::DType::f32},
                                                     {"token_embedding", ir::DType::u8}}));
  for (int step = 0; step < 3; ++step) {
    interpreter.run("micro_step");
    std::vector<std::vector<double>> gradients;
    for (const models::ParameterGroup& group : small.pack.groups)
      gradients.push_back(interpreter.read({group.gradients, {}}));
    interpreter.run("update");
    const double norm = interpreter.read_scalar(small.metrics.grad_norm);
    for (size_t g = 0; g < references.size(); ++g) {
      const models::ParameterGroup& group = small.pack.groups[g];
      Reference& r = references[g];
      step_of(spec, r, gradients[g], std::min(1.0, 1 / (norm + 1e-6)), spec.train.optimizer.learning_rate,
              group.decayed_rows * small.pack.row, step);
      const std::vector<double> found = interpreter.read({group.parameters, {}});
      for (size_t i = 0; i < r.p.size(); ++i)
        ASSERT_NEAR(found[i], r.p[i], 1e-10) << "step " << step << " group " << g << " element " << i;
      if (group.moments != ir::DType::u8) continue;
      quantize(r.m, true);
      quantize(r.v, false);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedUpdate,
                         testing::Values("optimizer: {name: adamw, learning_rate: 0.01, weight_decay: 0.1}",
                                         "optimizer: {name: lion, learning_rate: 0.01, weight_decay: 0.2}",
                                         "optimizer: {name: sgd, learning_rate: 0.1, weight_decay: 0.01}"));

TEST(Pack, KeepsExactMomentsOfEmbeddingsWhereAsked) {
  spec::Spec spec = small_spec(
      "hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 1, vocab_size: 70, position: learned, "
      "max_position_embeddings: 64, tie_word_embeddings: false",
      "sequence_len: 4, micro_batch_size: 1");
  spec.optimizations.optimizer_state = spec::StateType::int8;
  const auto exact = [&] {
    const SmallModel small(spec, {.all_functions = true});
    std::set<std::string> names;
    for (const models::ParameterGroup& group : small.pack.groups) {
      for (const ir::ValueId member : group.members) {
        if (group.moments == ir::DType::f32) names.insert(small.graph.value(member).name);
      }
    }
    return names;
  };
  const std::set<std::string> norms = {"attn_norm.weight", "mlp_norm.weight"};
  EXPECT_EQ(exact(), norms);
  spec.optimizations.embedding_state = spec::EmbeddingState::fp32;
  EXPECT_EQ(exact(), (std::set<std::string>{"attn_norm.weight", "mlp_norm.weight", "position_embedding",
                                            "token_embedding"}));
}

// Only what one matmul writes is narrow: not the tied embedding, a head in parts, or vectors.
TEST(Pack, KeepsGradientsThatAddUpInF32) {
  const auto narrow = [&](const std::string& model, spec::LossKernel loss) {
    spec::Spec spec = narrow_spec("optimizer: {name: sgd}");
    spec.model.tie_word_embeddings = model == "tied";
    spec.optimizations.loss = loss;
    const SmallModel small(spec, kNarrow);
    std::set<std::string> names;
    for (const ir::ValueId parameter : small.parameters()) {
      const ir::Value& gradient = small.graph.value(small.gradient_of(parameter));
      EXPECT_EQ(small.graph.value(parameter).dtype, ir::DType::bf16);
      if (gradient.dtype == ir::DType::bf16) names.insert(small.graph.value(parameter).name);
    }
    return names;
  };
  const std::set<std::string> block = {"attn.qkv.weight", "attn.out.weight", "mlp.up.weight",
                                       "mlp.down.weight"};
  std::set<std::string> with_head = block;
  with_head.insert("head.weight");
  EXPECT_EQ(narrow("tied", spec::LossKernel::materialized), block);
  EXPECT_EQ(narrow("untied", spec::LossKernel::materialized), with_head);
  EXPECT_EQ(narrow("untied", spec::LossKernel::fused_linear), block);
}

struct Curve {
  double first = 0, last = 0;
};

// 200 steps of plain descent on one batch. `keep`: what a step leaves of the parameters.
Curve train(spec::Spec spec, const std::function<double(double)>& keep) {
  const SmallModel small(spec, kNarrow);
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  const ir::Use pack{small.pack.parameters, {}};
  Curve curve;
  for (int step = 0; step < 200; ++step) {
    std::vector<double> parameters = interpreter.read(pack);
    for (double& x : parameters) x = keep(x);
    interpreter.write(pack, parameters);
    interpreter.run("micro_step");
    interpreter.run("update");
    const double loss = interpreter.read_scalar(small.metrics.step_loss);
    (step == 0 ? curve.first : curve.last) = loss;
  }
  return curve;
}

// Steps far below an ulp of the weights: rounded to nearest they are lost one by one, by chance they add up.
TEST(StochasticRounding, FollowsTheF32RunWhereRoundingToNearestStalls) {
  const char* optimizer =
      "max_grad_norm: 0, optimizer: {name: sgd, learning_rate: 0.0001, momentum: 0, weight_decay: 0}";
  spec::Spec wide = narrow_spec(optimizer);
  wide.optimizations.weights = spec::WeightType::fp32;
  wide.optimizations.optimizer_state = spec::StateType::fp32;
  const auto nearest = [](double x) { return static_cast<double>(round_to<bf16>(static_cast<float>(x))); };
  const auto as_it_is = [](double x) { return x; };
  const Curve exact = train(wide, as_it_is), stochastic = train(narrow_spec(optimizer), as_it_is),
              stalled = train(wide, nearest);
  const double gain = exact.first - exact.last;
  ASSERT_GT(gain, 0.1);
  EXPECT_NEAR(stochastic.last, exact.last, 0.2 * gain);
  EXPECT_GT(stalled.last, exact.first - 0.05 * gain);
}

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
  EXPECT_DOUBLE_EQ(rate_at("name: linear, warmup_steps: 20, min_ratio: 0.1", 19), 2);
  EXPECT_DOUBLE_EQ(rate_at("name: linear, warmup_steps: 20, min_ratio: 0.1", 20), 2 * (1 - 0.9 / 80));
  EXPECT_DOUBLE_EQ(rate_at("name: linear, warmup_steps: 20, min_ratio: 0.1", 59), 2 * (1 - 0.9 * 0.5));
  EXPECT_NEAR(rate_at("name: cosine, warmup_steps: 20, min_ratio: 0.1", 39),
              2 * (0.1 + 0.9 * (1 + std::cos(std::numbers::pi / 4)) / 2), 1e-14);
  EXPECT_NEAR(rate_at("name: cosine, decay_steps: 50, min_ratio: 0.1", 80), 0.2, 1e-14);
  EXPECT_DOUBLE_EQ(rate_at("name: wsd, min_ratio: 0, decay_steps: 20", 79), 2);
  EXPECT_DOUBLE_EQ(rate_at("name: wsd, min_ratio: 0, decay_steps: 20", 89), 1);
}

// The rates of steps with these losses.
std::vector<double> adapted_rates(const std::string& scheduler, const std::vector<double>& losses) {
  const SmallModel small(small_spec(kModel,
                                    "sequence_len: 4, micro_batch_size: 1, optimizer: {learning_rate: 2}, "
                                    "lr_scheduler: {name: adaptive, " +
                                        scheduler + "}"),
                         {.all_functions = true});
  Interpreter interpreter(small.graph);
  std::vector<double> rates;
  for (const double loss : losses) {
    interpreter.write({small.model->interface.loss, {}}, {loss});
    interpreter.run("update");
    rates.push_back(interpreter.read_scalar(small.metrics.learning_rate));
  }
  return rates;
}

using Rates = std::vector<double>;

TEST(AdaptiveRate, IsCutWhereAMeanLossHasNotFallen) {
  const std::string scheduler = "patience: 2, threshold: 0.1, factor: 0.5, min_ratio: 0.2";
  // Means 5, 4, 3.7 (not a tenth lower), 3.3, 4, 3 (of which 3.3 is the best before): two cuts, then falling.
  EXPECT_EQ(adapted_rates(scheduler, {6, 4, 4, 4, 3.7, 3.7, 3.2, 3.4, 3, 5, 2.9, 2.9, 0, 0}),
            (Rates{2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5}));
}

TEST(AdaptiveRate, EndsAtTheRatioAndCountsAfterWarmup) {
  EXPECT_EQ(adapted_rates("patience: 1, factor: 0.5, min_ratio: 0.4, warmup_steps: 2", {1, 1, 5, 5, 5, 5}),
            (Rates{1, 2, 2, 2, 1, 0.8}));
  EXPECT_EQ(adapted_rates("patience: 1, factor: 0, min_ratio: 0", {1, 2, 1}), (Rates{2, 2, 0}));
}

TEST(AdaptiveRate, ComparesNegativeLossesAndLeavesOutWhatIsNotFinite) {
  EXPECT_EQ(adapted_rates("patience: 1, threshold: 0.1, min_ratio: 0", {-10, -12, -12.5, -20}),
            (Rates{2, 2, 2, 1}));
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(adapted_rates("patience: 2, threshold: 0, min_ratio: 0", {4, inf, 3, 3, 2, 2}),
            (Rates{2, 2, 2, 2, 2, 2}));
}

TEST(AdaptiveRate, LeavesOutWhatIsNotFiniteInTheFirstStepAfterWarmupToo) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::string by_two = "patience: 2, threshold: 0, min_ratio: 0, warmup_steps: 1";
  // Means 4, 3, 2: were the first loss 0, 3 would not be below 2.
  EXPECT_EQ(adapted_rates(by_two, {9, inf, 4, 3, 3, 2, 2, 2}), (Rates{2, 2, 2, 2, 2, 2, 2, 2}));
  // A mean of no loss decides nothing: then the next is the first.
  EXPECT_EQ(adapted_rates(by_two, {9, inf, nan, 4, 4, 3, 3, 3, 3, 3}), (Rates{2, 2, 2, 2, 2, 2, 2, 2, 2, 1}));
  // In a later window, where the best so far is no loss of it: means 4, 5 (cut), none, 3.
  EXPECT_EQ(adapted_rates(by_two, {9, 4, 4, inf, 5, nan, inf, 3, 3, 3}),
            (Rates{2, 2, 2, 2, 2, 1, 1, 1, 1, 1}));
  EXPECT_EQ(adapted_rates("patience: 1, threshold: 0, min_ratio: 0", {inf, 4, 3, 3, 3}),
            (Rates{2, 2, 2, 2, 1}));
}

// digits / unit in float64 is the number that a spec says, and the schedule makes the same of both, bit for
// bit.
TEST(FoundRate, IsThatOfASpecWithTheNumber) {
  for (const std::string scheduler :
       {"name: cosine, warmup_steps: 7, min_ratio: 0.1", "name: linear", "name: wsd",
        "name: constant, warmup_steps: 3", "name: adaptive", "name: " OWN_CURVE}) {
    const auto rates = [&](const std::string& rate) {
      const SmallModel small(
          small_spec(kModel, "sequence_len: 4, micro_batch_size: 1, optimizer: {learning_rate: " + rate +
                                 "}, lr_scheduler: {" + scheduler + "}"),
          {.all_functions = true});
      Interpreter interpreter(small.graph);
      const auto write = [&](const char* name, double x) {
        interpreter.write({small.graph.find(name), {}}, {x});
      };
      if (rate == "auto") {
        write("learning_rate.digits", 67);
        write("learning_rate.unit", 1e5);
      }
      std::vector<double> found;
      for (const double step : {0, 1, 5, 20, 99}) {
        write("step", step);
        interpreter.run("update");
        found.push_back(interpreter.read_scalar(small.metrics.learning_rate));
      }
      return found;
    };
    EXPECT_EQ(rates("auto"), rates("6.7e-4")) << scheduler;
  }
}

TEST(FoundRate, IsTakenAsItIsInARangeTest) {
  const SmallModel small(small_spec(kModel,
                                    "sequence_len: 4, micro_batch_size: 1, optimizer: {learning_rate: auto}, "
                                    "lr_scheduler: {name: cosine, warmup_steps: 10}"),
                         {.all_functions = true});
  Interpreter interpreter(small.graph);
  for (const auto& [name, x] : {std::pair("digits", 5.0), {"unit", 100.0}, {"trial", 1.0}})
    interpreter.write({small.graph.find(std::string("learning_rate.") + name), {}}, {x});
  for (int step = 0; step < 3; ++step) {
    interpreter.run("update");
    EXPECT_EQ(interpreter.read_scalar(small.metrics.learning_rate), 0.05);
  }
}

TEST(Schedule, EndsAtTheRatioExactly) {
  for (const std::string name : {"linear", "cosine", "wsd"}) {
    for (const double ratio : {0.0, 0.1, 0.3, 0.7, 1.0}) {
      const std::string scheduler = fmt::format("name: {}, min_ratio: {}", name, ratio);
      EXPECT_EQ(rate_at(scheduler, 99), 2 * ratio) << scheduler;
      EXPECT_EQ(rate_at(scheduler, 250), 2 * ratio) << scheduler;
      if (ratio < 1) {
        EXPECT_GT(rate_at(scheduler, 98), 2 * ratio) << scheduler;
      }
    }
  }
}

TEST(Schedule, OfOneStepIsItsLast) {
  EXPECT_EQ(rate_at("name: wsd, min_ratio: 0.1, decay_steps: 1", 98), 2);
  EXPECT_EQ(rate_at("name: wsd, min_ratio: 0.1, decay_steps: 1", 99), 0.2);
  EXPECT_EQ(rate_at("name: wsd, min_ratio: 0.1, decay_steps: 0", 99), 2);
  EXPECT_EQ(rate_at("name: linear, warmup_steps: 99, min_ratio: 0.1", 98), 2);
  EXPECT_EQ(rate_at("name: linear, warmup_steps: 99, min_ratio: 0.1", 99), 0.2);
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
