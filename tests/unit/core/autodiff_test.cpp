// The whole gradient of small models, loops and shared parameters included, against finite differences of the
// loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "own_functions.h"
#include "small_models.h"

namespace hydrac::test {
namespace {

struct Config {
  const char* name;
  const char* model;
  const char* train;
  const char* targets = "";
  const char* adapter = "";
  bool documents = false;  // sequences have several
};

void PrintTo(const Config& config, std::ostream* os) {
  *os << config.name;
}

double loss_of(const SmallModel& small, Interpreter interpreter) {
  interpreter.run("micro_step");
  return interpreter.read_scalar(small.model->graph.results.loss);
}

// A few elements of a parameter's slot, spread over it.
std::vector<int64_t> sampled(int64_t elements) {
  if (elements <= 3) return elements == 1 ? std::vector<int64_t>{0} : std::vector<int64_t>{0, elements - 1};
  return {0, elements / 3, elements - 1};
}

class ModelGradient : public testing::TestWithParam<Config> {};

TEST_P(ModelGradient, EqualsFiniteDifferencesForEveryParameter) {
  spec::Spec spec = small_spec(GetParam().model, GetParam().train, GetParam().targets, GetParam().adapter);
  spec.data.document_mask = GetParam().documents;
  const SmallModel small(spec, {});
  ASSERT_EQ(ir::verify(small.graph), std::vector<std::string>{});
  Interpreter start(small.graph);
  small.fill(start);
  Interpreter done = start;
  done.run("micro_step");
  ASSERT_TRUE(std::isfinite(done.read_scalar(small.model->graph.results.loss)));
  for (ir::ValueId id : small.parameters()) {
    const ir::Value& parameter = small.graph.value(id);
    if (!parameter.trains()) {
      EXPECT_EQ(small.gradient_of(id), ir::kNoValue) << parameter.name;
      continue;
    }
    double largest = 0;
    for (int slot = 0; slot < parameter.slots; ++slot) {
      const ir::Use use{id, {false, slot}};
      const std::vector<double> gradient = done.read({small.gradient_of(id), {false, slot}});
      const std::vector<double> values = start.read(use);
      for (int64_t i : sampled(element_count(parameter.shape))) {
        const double step = 1e-5;
        const auto loss_at = [&](double shift) {
          Interpreter shifted = start;
          std::vector<double> moved = values;
          moved[i] += shift;
          shifted.write(use, moved);
          return loss_of(small, std::move(shifted));
        };
        const double expected = (loss_at(step) - loss_at(-step)) / (2 * step);
        largest = std::max(largest, std::abs(expected));
        EXPECT_NEAR(gradient[i], expected, 1e-6 * std::abs(expected) + 1e-9)
            << parameter.name << " slot " << slot << " element " << i;
      }
    }
    // Predictors learn of a loss of their own.
    if (!parameter.name.starts_with("predictor.")) {
      EXPECT_GT(largest, 0) << parameter.name << " does nothing";
    }
  }
}

constexpr const char* kTrain = "sequence_len: 5, micro_batch_size: 2";
constexpr const char* kSize =
    "hidden_size: 8, num_hidden_layers: 3, num_attention_heads: 4, head_dim: 4, vocab_size: 11, "
    "intermediate_size: 6, ";
#define MODEL(more)                                                                             \
  "hidden_size: 8, num_hidden_layers: 3, num_attention_heads: 4, head_dim: 4, vocab_size: 11, " \
  "intermediate_size: 6, " more
#define CCGQA(kv_heads, more)                                                       \
  "hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 11, " \
  " intermediate_size: 6, attention_kind: ccgqa, num_key_value_heads: " kv_heads    \
  ", ccgqa: {compression: 2" more
#define FROZEN(patterns) "sequence_len: 5, micro_batch_size: 2, freeze: ['" patterns "']"
#define SERIES(more)                                                                                         \
  "input: series, num_features: 3, hidden_size: 8, num_hidden_layers: 2, num_attention_heads: 2, head_dim: " \
  "4, intermediate_size: 6, " more

INSTANTIATE_TEST_SUITE_P(
    Small, ModelGradient,
    testing::Values(
        Config{"LlamaTied",
               MODEL("norm: rmsnorm, position: rope, num_key_value_heads: 2, hidden_act: swiglu, "
                     "tie_word_embeddings: true"),
               kTrain},
        Config{"Ccgqa", CCGQA("2", "}"), kTrain},
        Config{.name = "CcgqaOfDocuments", .model = CCGQA("2", "}"), .train = kTrain, .documents = true},
        Config{"CcgqaAsManyKeys", CCGQA("4", ", conv_kernel: 2}"), kTrain},
        Config{"CcgqaOneKeyHead", CCGQA("1", ", conv_kernel: 7}"), kTrain},
        Config{"CcgqaHeadConvAlone", CCGQA("2", ", channel_conv: false}"), kTrain},
        Config{"CcgqaChannelConvAlone", CCGQA("2", ", head_conv: false}"), kTrain},
        Config{"CcgqaWithoutMeans", CCGQA("2", ", qk_mean: false}"), kTrain},
        Config{"CcgqaWithoutTemperature", CCGQA("2", ", temperature: false}, rope_interleave: false"),
               kTrain},
        Config{"CcgqaOfMeans",
               CCGQA("2", ", head_conv: false, channel_conv: false, l2_norm: false}, position: none"),
               kTrain},
        Config{"CcgqaOfNothing",
               CCGQA("2",
                     ", head_conv: false, channel_conv: false, qk_mean: false, l2_norm: false, value_shift: "
                     "false}"),
               kTrain},
        Config{
            "Mod",
            MODEL(
                "num_key_value_heads: 2, qk_norm: true, mod: {capacity: 0.6, every: 3, predictor_weight: 0}"),
            kTrain},
        Config{
            "Experts",
            MODEL("num_key_value_heads: 2, moe: {experts: 5, top_k: 2, aux_loss_coef: 0, routed_scale: 1.5}"),
            kTrain},
        Config{"ExpertsOfSigmoids",
               MODEL("hidden_act: gelu, moe: {experts: 3, top_k: 2, intermediate_size: 5, scoring: sigmoid, "
                     "normalize_top_k: false, aux_loss_coef: 0}"),
               kTrain},
        Config{"ModOfEverySecondLayerWithDropout",
               "hidden_size: 8, num_hidden_layers: 4, num_attention_heads: 2, intermediate_size: 6, "
               "vocab_size: 11, "
               "norm: layernorm, position: learned, dropout: 0.2, mod: {capacity: 0.6, predictor_weight: 0}",
               kTrain},
        Config{"LlamaUntied",
               MODEL("norm: rmsnorm, position: rope, num_key_value_heads: 1, hidden_act: geglu, "
                     "tie_word_embeddings: false"),
               kTrain},
        Config{"Gpt2",
               MODEL("norm: layernorm, position: learned, hidden_act: gelu, max_position_embeddings: 7"),
               kTrain},
        Config{"QkNorm", MODEL("norm: rmsnorm, position: rope, num_key_value_heads: 2, qk_norm: true"),
               kTrain},
        Config{"QkNormWithoutPositions",
               MODEL("norm: rmsnorm, position: none, qk_norm: true, hidden_act: silu"), kTrain},
        Config{"Olmo2",
               MODEL("norm: rmsnorm, position: rope, num_key_value_heads: 2, norm_placement: output, "
                     "qk_norm: true, "
                     "qk_norm_scope: projection"),
               kTrain},
        Config{"Gemma2",
               MODEL("norm: rmsnorm, position: rope, num_key_value_heads: 2, norm_placement: both, "
                     "norm_offset: 1, "
                     "embedding_scale: 2.5, residual_scale: 0.5, logit_scale: 0.75, attention_scale: 0.6, "
                     "hidden_act: geglu_tanh, dropout: 0.2"),
               kTrain},
        Config{"LayernormOfBothSides",
               MODEL("norm: layernorm, position: learned, norm_placement: both, hidden_act: gelu"), kTrain},
        Config{"Parallel",
               MODEL("norm: layernorm, position: rope, block: parallel, hidden_act: gelu, dropout: 0.2"),
               kTrain},
        Config{"ParallelWithOneNormAndThoseOfOutputs",
               MODEL("norm: rmsnorm, position: rope, num_key_value_heads: 2, block: parallel_one_norm, "
                     "norm_placement: both"),
               kTrain},
        Config{"NoBias",
               MODEL("norm: layernorm, norm_bias: false, attention_bias: false, mlp_bias: false, position: "
                     "learned, hidden_act: relu2"),
               kTrain},
        Config{"Qwen2",
               MODEL("norm: rmsnorm, position: rope, attention_bias: true, attention_output_bias: false, "
                     "num_key_value_heads: 2"),
               kTrain},
        Config{"DropoutAndSmoothing",
               MODEL("norm: layernorm, position: learned, hidden_act: gelu_tanh, dropout: 0.3, "
                     "attention_dropout: 0.4"),
               "sequence_len: 5, micro_batch_size: 2, label_smoothing: 0.1"},
        Config{"RopeWithDropout",
               MODEL("norm: rmsnorm, position: rope, dropout: 0.2, num_key_value_heads: 2, mlp_bias: true"),
               kTrain},
        Config{"Windows", MODEL("norm: rmsnorm, position: rope, num_key_value_heads: 2, sliding_window: 2"),
               kTrain},
        Config{"WindowsInTwoOfThreeLayers",
               MODEL("norm: layernorm, position: learned, sliding_window: 2, sliding_window_pattern: 2, "
                     "attention_dropout: 0.3"),
               kTrain},
        Config{"Softcaps",
               MODEL("norm: rmsnorm, position: rope, num_key_value_heads: 2, attention_softcap: 0.5, "
                     "logit_softcap: 0.3, sliding_window: 3"),
               "sequence_len: 5, micro_batch_size: 2, label_smoothing: 0.1"},
        Config{"FrozenTiedEmbedding", MODEL("num_key_value_heads: 2"), FROZEN("model.embed_tokens.weight")},
        Config{
            "FrozenUntiedEmbeddingAndPositions",
            MODEL(
                "norm: layernorm, position: learned, hidden_act: gelu, tie_word_embeddings: false, dropout: "
                "0.3, max_position_embeddings: 7"),
            FROZEN("model.embed_*.weight")},
        Config{"FrozenLowerLayers",
               MODEL("attention_dropout: 0.3, dropout: 0.2, sliding_window: 2, sliding_window_pattern: 2, "
                     "qk_norm: "
                     "true"),
               FROZEN("model.embed_tokens.*', 'model.layers.[01].*")},
        Config{"FrozenMiddleLayer",
               MODEL("norm: layernorm, position: learned, hidden_act: gelu, dropout: 0.2, "
                     "max_position_embeddings: 7"),
               FROZEN("transformer.h.1.*")},
        Config{"FrozenUpperLayer", MODEL("dropout: 0.2"), FROZEN("model.layers.2.*', 'model.norm.weight")},
        Config{"FrozenMatrices", MODEL("attention_bias: true, mlp_bias: true, tie_word_embeddings: false"),
               FROZEN("*_proj.weight', 'lm_head.*")},
        Config{"FrozenBiasesAndNorms", MODEL("norm: layernorm, position: rope"),
               FROZEN("*.bias', '*norm*', '*.ln_*")},
        Config{"FrozenFinalNormAlone", MODEL("norm: rmsnorm"), FROZEN("model.norm.weight")},
        Config{"FrozenButForTheHead", MODEL("tie_word_embeddings: false"), FROZEN("model.*")},
        Config{"FrozenButForTheFinalNorm", MODEL("norm: rmsnorm"),
               FROZEN("model.layers.*', 'model.embed_tokens.*")},
        Config{"FrozenButForOneMlp", MODEL("norm: rmsnorm"),
               FROZEN("model.[en]*', 'model.layers.[02].*', '*attn*', '*norm*")},
        Config{"FrozenBelowTheFirstMatrixWithDropout",
               MODEL("norm: rmsnorm, dropout: 0.2, tie_word_embeddings: false"), FROZEN("*embed*', '*norm*")},
        Config{"CcgqaFrozenButForTemperatures", CCGQA("2", "}"),
               FROZEN("*_proj.*', '*_conv.*', '*norm*', '*embed*")},
        Config{"CcgqaFrozenConvolutions", CCGQA("2", "}"), FROZEN("*_conv.weight")},
        Config{"CcgqaFrozenKeyConvolution", CCGQA("1", "}"), FROZEN("*k_conv.weight")},
        Config{"LoraOfEverything", MODEL("num_key_value_heads: 2, tie_word_embeddings: false"), kTrain, "",
               "type: lora, r: 2"},
        Config{"LoraWithBiasesAndDropout",
               MODEL("norm: layernorm, position: learned, hidden_act: gelu, dropout: 0.2"), kTrain, "",
               "type: lora, r: 3, alpha: 2, rslora: true, dropout: 0.3"},
        Config{"LoraOfSome", MODEL("num_key_value_heads: 2, qk_norm: true"), kTrain, "",
               "type: lora, r: 2, target_modules: [q_proj, v_proj, mlp.up_proj]"},
        Config{"LoraOfCcgqa", CCGQA("2", "}"), kTrain, "", "type: lora, r: 1"},
        Config{"OneLayerOneToken",
               "hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, vocab_size: 5, "
               "intermediate_size: 6",
               "sequence_len: 1, micro_batch_size: 1"},
        Config{"SeriesRegression",
               SERIES("head: regression, norm: layernorm, hidden_act: gelu, position: learned"), kTrain,
               "[y]"},
        Config{"OwnActivation", MODEL("norm: rmsnorm, position: rope, hidden_act: " EVERY_OPERATION), kTrain},
        Config{"SeriesWithOwnGatedActivationAndLoss", SERIES("head: regression, hidden_act: " OWN_GATED),
               "sequence_len: 5, micro_batch_size: 2, loss: " OWN_LOSS, "[y, z]"},
        Config{"SeriesRegressionOfThree", SERIES("head: regression, hidden_act: geglu"), kTrain, "[x, y, z]"},
        Config{
            "SeriesClassification",
            SERIES("head: classification, num_labels: 3, norm: rmsnorm, hidden_act: swiglu, position: rope"),
            kTrain, "[y]"}),
    [](const auto& info) { return std::string(info.param.name); });

// Below the first layer with something that trains there is no backward pass, and above the frozen ones there
// is no gradient of a weight.
TEST(Autodiff, FrozenLayersHaveNoBackwardWork) {
  const std::string model = std::string(kSize) + "num_key_value_heads: 2, tie_word_embeddings: false";
  const auto backward = [&](const std::string& patterns) {
    const SmallModel small(small_spec(model, std::string(kTrain) + ", freeze: [" + patterns + "]"), {});
    std::map<std::string, size_t> matmuls;  // by region
    for (const ir::Region& region : small.graph.function("micro_step").regions) {
      if (region.backward)
        matmuls[region.name] =
            static_cast<size_t>(std::ranges::count(region.nodes, ir::Op::gemm, &ir::Node::op));
    }
    return matmuls;
  };
  using Matmuls = std::map<std::string, size_t>;
  EXPECT_EQ(backward(""), (Matmuls{{"block_backward", 8}, {"input_backward", 0}}));
  EXPECT_EQ(backward("model.embed_tokens.weight"), (Matmuls{{"block_backward", 8}, {"input_backward", 0}}));
  // Of the last frozen layer the norm at its end belongs to the next one, and trains.
  EXPECT_EQ(backward("model.embed_tokens.weight, 'model.layers.[01].*'"),
            (Matmuls{{"block1_backward", 0}, {"block2_backward", 8}}));
  EXPECT_EQ(
      backward("'model.layers.2.*'"),
      (Matmuls{
          {"block0_backward", 8}, {"block1_backward", 8}, {"block2_backward", 4}, {"input_backward", 0}}));
  EXPECT_EQ(backward("'model.*'"), Matmuls{});
}

// Beside adapters nothing of the model has a gradient, moments or a place in the trained pack.
TEST(Autodiff, OfAModelWithAdaptersOnlyTheseTrain) {
  const std::string model = std::string(kSize) + "num_key_value_heads: 2";
  const SmallModel small(small_spec(model, kTrain, "", "type: lora, r: 2"), {.all_functions = true});
  int64_t adapters = 0;
  for (const ir::Value& value : small.graph.values) {
    if (!value.parameter) continue;
    const bool is_adapter = value.name.find(".lora_") != std::string::npos;
    EXPECT_EQ(value.role, is_adapter ? ir::Role::parameter : ir::Role::frozen) << value.name;
    EXPECT_EQ(small.gradient_of(value.id) != ir::kNoValue, is_adapter) << value.name;
    if (is_adapter) adapters += value.view->slot_stride * value.slots;
  }
  EXPECT_GT(adapters, 0);
  for (const ir::Value& value : small.graph.values) {
    const bool is_of_training = value.role == ir::Role::gradient || value.role == ir::Role::optimizer_state;
    if (!is_of_training || value.view || value.shape.size() != 2) continue;
    EXPECT_LT(element_count(value.shape) - adapters, models::kPackRow) << value.name;
  }
}

// k micro-batches that accumulate have the gradient of one batch with all their sequences.
TEST(Autodiff, AccumulatesOverMicroBatches) {
  const std::string model = std::string(kSize) + "norm: layernorm, position: learned, hidden_act: gelu";
  const SmallModel whole(small_spec(model, "sequence_len: 5, micro_batch_size: 4"), {});
  const SmallModel parts(
      small_spec(model, "sequence_len: 5, micro_batch_size: 2, gradient_accumulation_steps: 2"),
      {.accumulate = true});
  Interpreter one(whole.graph), two(parts.graph);
  whole.fill(one);
  parts.fill(two);
  for (ir::ValueId id : whole.parameters()) {
    for (int slot = 0; slot < whole.graph.value(id).slots; ++slot) {
      two.write({parts.graph.find(whole.graph.value(id).name), {false, slot}}, one.read({id, {false, slot}}));
    }
  }
  one.run("micro_step");
  const ir::Graph &a = whole.graph, &b = parts.graph;
  two.write({b.inputs.inv_count, {}}, one.read({a.inputs.inv_count, {}}));
  for (int half : {0, 1}) {
    for (const auto& [from, to] :
         {std::pair{a.inputs.tokens, b.inputs.tokens}, std::pair{a.inputs.targets, b.inputs.targets}}) {
      const std::vector<double> all = one.read({from, {}});
      two.write({to, {}}, {all.begin() + half * 10, all.begin() + half * 10 + 10});
    }
    two.run("micro_step");
  }
  EXPECT_NEAR(two.read_scalar(b.results.loss), one.read_scalar(a.results.loss), 1e-14);
  const std::vector<double> expected = one.read({whole.pack.groups[0].gradients, {}}),
                            found = two.read({parts.pack.groups[0].gradients, {}});
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-14) << i;
}

// Layers draw different random bits, and so does the next micro-batch.
TEST(Autodiff, EveryMicroStepAdvancesItsRandomBits) {
  const SmallModel small(small_spec(std::string(kSize) + "dropout: 0.5", kTrain), {});
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  interpreter.run("micro_step");
  const double first = interpreter.read_scalar(small.model->graph.results.loss);
  EXPECT_EQ(interpreter.read_scalar(small.model->graph.state.rng_step), 6);
  interpreter.write({small.model->graph.results.loss, {}}, {0});
  interpreter.run("micro_step");
  EXPECT_NE(interpreter.read_scalar(small.model->graph.results.loss), first);
}

}  // namespace
}  // namespace hydrac::test
