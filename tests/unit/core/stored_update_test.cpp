// Updates whose parameters or moments are stored in 16 or 8 bits: what they round, with which noise, and what
// of it stays exact.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "cuda/types.cuh"
#include "hydrac/dynamic_code.h"
#include "hydrac/random.h"
#include "optimizer_reference.h"
#include "optimizers/rounding.h"
#include "small_models.h"

namespace hydrac::test {
namespace {

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
    const double norm = interpreter.read_scalar(small.graph.results.grad_norm);
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
    const double norm = interpreter.read_scalar(small.graph.results.grad_norm);
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
    const double loss = interpreter.read_scalar(small.graph.results.step_loss);
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

}  // namespace
}  // namespace hydrac::test
