// Generated CUDA kernels against the definition: every fused kernel of small models with odd sizes, in fp32,
// bf16 and fp16, run thread by thread on the CPU on random tensors, equals ir::evaluate in float64; in either
// order of the threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "codegen/cuda/body.h"
#include "emulated_body.h"
#include "gpu_model.h"
#include "tests/unit/core/own_functions.h"

namespace hydrac::test {
namespace {

struct Config {
  const char* name;
  const char* model;
  const char* train;
  ir::DType activations = ir::DType::f32;
  const char* targets = "";
  passes::RecomputeChoice recompute = {};
  bool narrow_state = false;                              // weights, gradients and moments of 16 bits
  bool int8_state = false;                                // moments of 8 bits
  bool nf4_base = false;                                  // adapters beside matrices of 4 bits
  int replies = 0;                                        // above 0: of an objective, and an adapter with kl
  int ranks = 1;                                          // that share the update
  bool encodes = false;                                   // an encoder embeds replies
  bool documents = false;                                 // sequences have several
  spec::ObjectiveName pairs = spec::ObjectiveName::none;  // that are learned from
};

spec::Spec spec_of(const Config& config) {
  spec::Spec spec = small_spec(config.model, config.train, config.targets);
  spec.data.document_mask = config.documents;
  spec.optimizations.optimizer_state = config.int8_state     ? spec::StateType::int8
                                       : config.narrow_state ? spec::StateType::bf16
                                                             : spec::StateType::fp32;
  spec.parallel.data = config.ranks;
  spec.parallel.zero = config.ranks > 1 ? 1 : 0;
  if (config.nf4_base) {
    spec.adapter.type = spec::AdapterType::lora;
    spec.adapter.base = spec::AdapterBase::nf4;
    spec.adapter.r = 3;
  }
  spec.objective.name = config.pairs;
  if (config.replies > 0) {
    spec.adapter.type = spec::AdapterType::lora;
    spec.objective.name = spec::ObjectiveName::polychromic;
    spec.objective.prompts = 2;
    spec.objective.replies = config.replies;
    spec.objective.kl = 1;
    spec.objective.embed_layer = config.replies == 3 ? 1 : spec.model.num_hidden_layers;
    if (config.encodes) spec.encoder = small_encoder();
  }
  if (!config.narrow_state) return spec;
  if (config.activations == ir::DType::bf16) spec.optimizations.weights = spec::WeightType::bf16;
  spec.optimizations.gradients = spec::GradientType::compute;
  return spec;
}

void PrintTo(const Config& config, std::ostream* os) {
  *os << config.name;
}

struct Case {
  std::string name;
  const ir::Node* node;
  int layer;
  codegen::CudaKernels kernels;
};

// Bodies over millions of elements would take the emulator minutes.
bool is_large(const ir::Body& body) {
  int64_t columns = 1;
  for (size_t space = 0; space < body.spaces.size(); ++space)
    columns = std::max(columns, element_count(body.space_shape(static_cast<int>(space))));
  return body.row_count() * columns > 100000;
}

// Kernels with the same text are one.
std::vector<Case> cases_of(const ir::Graph& graph) {
  std::vector<Case> cases;
  std::set<std::string> seen;
  for (const ir::Function& function : graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op != ir::Op::fused || is_large(*node.body)) continue;
        codegen::CudaKernels kernels = codegen::cuda_body_kernels(graph, node, *targets::find("sm_90"));
        if (!seen.insert(to_text(kernels.kernels[0].text)).second) continue;
        cases.push_back(
            {"body" + std::to_string(cases.size()), &node, region.layers > 1 ? 1 : 0, std::move(kernels)});
      }
    }
  }
  return cases;
}

bool has_16_bits(const ir::Body& body) {
  return std::ranges::any_of(body.operands, [](const ir::Operand& o) { return size_of(o.dtype) == 2; });
}

class CudaBodies : public testing::TestWithParam<Config> {};

TEST_P(CudaBodies, EqualTheirDefinitionInAnyOrderOfThreads) {
  const Config& config = GetParam();
  const GpuModel model(spec_of(config), config.activations, config.recompute);
  const std::vector<Case> cases = cases_of(model.graph);
  std::vector<std::pair<std::string, codegen::CudaKernels>> all;
  std::vector<std::string> names;
  for (const Case& one : cases) {
    all.emplace_back(one.name, one.kernels);
    for (size_t k = 0; k < one.kernels.kernels.size(); ++k) names.push_back(kernel_name(one.name, k));
  }
  emulation::EmulatedKernels compiled(cuda_source_of(model.graph, all, *targets::find("sm_90")), names);
  for (const Case& one : cases) {
    SCOPED_TRACE(to_text(model.graph, *one.node) + "\n" + to_text(one.kernels.kernels[0].text));
    Interpreter state(model.graph);
    randomize(model, state);
    BodyMemory memory(model.graph, state, one.kernels, one.layer);
    memory.run(compiled, one.name);
    state.run(*one.node, one.layer);
    // A value that rounds the other way moves what is computed from it by one step of a 16-bit type.
    const bool coarse = has_16_bits(*one.node->body);
    EXPECT_EQ(memory.compare(state, coarse ? 8e-3 : 1e-5, coarse ? 4e-3 : 3e-6), std::vector<std::string>{});
  }
}

constexpr const char* kLlama =
    "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, num_key_value_heads: 1, "
    "intermediate_size: 52, vocab_size: 97, dropout: 0.3";
constexpr const char* kGpt2 =
    "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, intermediate_size: 33, "
    "vocab_size: 517, norm: layernorm, position: learned, hidden_act: gelu, "
    "max_position_embeddings: 9, attention_dropout: 0.2, dropout: 0.1";

INSTANTIATE_TEST_SUITE_P(
    Small, CudaBodies,
    testing::Values(
        Config{"Llama", kLlama, "sequence_len: 7, micro_batch_size: 3, label_smoothing: 0.1"},
        Config{"LlamaBf16", kLlama, "sequence_len: 7, micro_batch_size: 3, label_smoothing: 0.1",
               ir::DType::bf16},
        Config{
            "LlamaBf16State", kLlama, "sequence_len: 7, micro_batch_size: 3", ir::DType::bf16, "", {}, true},
        Config{.name = "LlamaShared",
               .model = kLlama,
               .train = "sequence_len: 7, micro_batch_size: 3",
               .activations = ir::DType::bf16,
               .ranks = 3},
        Config{.name = "LlamaSharedBf16State",
               .model = kLlama,
               .train = "sequence_len: 7, micro_batch_size: 3",
               .activations = ir::DType::bf16,
               .narrow_state = true,
               .ranks = 3},
        Config{"Gpt2Fp16State",
               kGpt2,
               "sequence_len: 7, micro_batch_size: 2, optimizer: {name: lion}",
               ir::DType::f16,
               "",
               {},
               true},
        Config{"SgdBf16State",
               "hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, intermediate_size: 3, "
               "vocab_size: 31, norm: layernorm, tie_word_embeddings: false",
               "sequence_len: 3, micro_batch_size: 1, optimizer: {name: sgd}",
               ir::DType::bf16,
               "",
               {},
               true},
        Config{"Int8State",
               kLlama,
               "sequence_len: 7, micro_batch_size: 2, gradient_accumulation_steps: 2",
               ir::DType::f32,
               "",
               {},
               false,
               true},
        Config{"Int8StateFp16",
               kLlama,
               "sequence_len: 7, micro_batch_size: 2, optimizer: {name: lion}",
               ir::DType::f16,
               "",
               {},
               false,
               true},
        Config{"Int8StateBf16Weights",
               kLlama,
               "sequence_len: 7, micro_batch_size: 2",
               ir::DType::bf16,
               "",
               {},
               true,
               true},
        Config{"Nf4Base",
               "hidden_size: 192, num_hidden_layers: 2, num_attention_heads: 3, num_key_value_heads: 1, "
               "intermediate_size: 64, vocab_size: 31",
               "sequence_len: 5, micro_batch_size: 2",
               ir::DType::f32,
               "",
               {},
               false,
               false,
               true},
        Config{"Nf4BaseBf16",
               "hidden_size: 192, num_hidden_layers: 2, num_attention_heads: 3, num_key_value_heads: 1, "
               "intermediate_size: 64, vocab_size: 31",
               "sequence_len: 5, micro_batch_size: 2",
               ir::DType::bf16,
               "",
               {},
               false,
               false,
               true},
        Config{"Objective",
               kLlama,
               "sequence_len: 7, micro_batch_size: 3",
               ir::DType::f32,
               "",
               {},
               false,
               false,
               false,
               3},
        Config{.name = "Pairs",
               .model = kLlama,
               .train = "sequence_len: 70, micro_batch_size: 3, gradient_accumulation_steps: 2",
               .documents = true,
               .pairs = spec::ObjectiveName::dpo},
        Config{.name = "PairsBf16",
               .model = kLlama,
               .train = "sequence_len: 70, micro_batch_size: 2",
               .activations = ir::DType::bf16,
               .documents = true,
               .pairs = spec::ObjectiveName::orpo},
        Config{"Encoder",
               kLlama,
               "sequence_len: 7, micro_batch_size: 2",
               ir::DType::f32,
               "",
               {},
               false,
               false,
               false,
               3,
               1,
               true},
        Config{"EncoderBf16",
               kLlama,
               "sequence_len: 7, micro_batch_size: 2",
               ir::DType::bf16,
               "",
               {},
               false,
               false,
               false,
               3,
               1,
               true},
        Config{"EncoderFp16",
               kLlama,
               "sequence_len: 7, micro_batch_size: 2",
               ir::DType::f16,
               "",
               {},
               false,
               false,
               false,
               3,
               1,
               true},
        Config{"ObjectiveBf16",
               "hidden_size: 264, num_hidden_layers: 2, num_attention_heads: 3, vocab_size: 97",
               "sequence_len: 7, micro_batch_size: 3, gradient_accumulation_steps: 2",
               ir::DType::bf16,
               "",
               {},
               false,
               false,
               false,
               10},
        Config{"Gpt2", kGpt2,
               "sequence_len: 7, micro_batch_size: 2, gradient_accumulation_steps: 2, optimizer: {name: "
               "lion}, lr_scheduler: {name: linear, warmup_steps: 3}"},
        Config{"Gpt2Fp16", kGpt2,
               "sequence_len: 7, micro_batch_size: 2, gradient_accumulation_steps: 2, optimizer: {name: "
               "lion}, lr_scheduler: {name: linear, warmup_steps: 3}",
               ir::DType::f16},
        Config{"LargeVocabularyBf16",
               "hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, intermediate_size: 3, "
               "vocab_size: 50257, position: none",
               "sequence_len: 3, micro_batch_size: 1, label_smoothing: 0.2, optimizer: {name: sgd}",
               ir::DType::bf16},
        Config{"WideBf16",
               "hidden_size: 264, num_hidden_layers: 1, num_attention_heads: 3, num_key_value_heads: 1, "
               "intermediate_size: 104, vocab_size: 100, norm: layernorm, qk_norm: true, hidden_act: swiglu",
               "sequence_len: 5, micro_batch_size: 3", ir::DType::bf16},
        Config{"Qwen3",
               "hidden_size: 24, num_hidden_layers: 3, num_attention_heads: 3, num_key_value_heads: 1, "
               "intermediate_size: 17, vocab_size: 5, qk_norm: true, tie_word_embeddings: false, hidden_act: "
               "geglu",
               "sequence_len: 130, micro_batch_size: 4, optimizer: {name: sgd}, lr_scheduler: {name: wsd}",
               ir::DType::f32,
               "",
               {.block = true}},
        Config{"OneTargetBf16",
               "input: series, num_features: 3, hidden_size: 8, num_hidden_layers: 2, num_attention_heads: "
               "1, head: regression, norm: layernorm, hidden_act: gelu_tanh, position: learned",
               "sequence_len: 48, micro_batch_size: 11, lr_scheduler: {name: constant}", ir::DType::bf16,
               "[y]"},
        Config{"ThreeTargets",
               "input: series, num_features: 1, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: "
               "1, head: regression, hidden_act: relu2, position: none, mlp_bias: true",
               "sequence_len: 11, micro_batch_size: 1",
               ir::DType::f32,
               "[x, y, z]",
               {.norm = true, .act = true}},
        Config{"Recursions",
               "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, num_key_value_heads: 1, "
               "intermediate_size: "
               "52, vocab_size: 97, dropout: 0.3, mor: {recursions: 3}",
               "sequence_len: 19, micro_batch_size: 2, gradient_accumulation_steps: 2"},
        Config{"RecursionsBf16",
               "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, num_key_value_heads: 1, "
               "intermediate_size: "
               "52, vocab_size: 97, dropout: 0.3, mor: {recursions: 3}",
               "sequence_len: 19, micro_batch_size: 2", ir::DType::bf16},
        Config{"RecursionsOfManyTokensFp16",
               "hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 17, "
               "vocab_size: 31, norm: layernorm, hidden_act: gelu, mor: {recursions: 2, aux_warmup_steps: 0}",
               "sequence_len: 700, micro_batch_size: 3", ir::DType::f16},
        Config{"Ccgqa",
               "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
               "intermediate_size: 17, vocab_size: 31, attention_kind: ccgqa, ccgqa: {compression: 2}",
               "sequence_len: 19, micro_batch_size: 2, gradient_accumulation_steps: 2"},
        Config{"CcgqaBf16",
               "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
               "intermediate_size: 17, vocab_size: 31, attention_kind: ccgqa, ccgqa: {compression: 2}",
               "sequence_len: 19, micro_batch_size: 2", ir::DType::bf16},
        Config{
            .name = "CcgqaOfDocuments",
            .model = "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
                     "intermediate_size: 17, vocab_size: 31, attention_kind: ccgqa, ccgqa: {compression: 2}",
            .train = "sequence_len: 19, micro_batch_size: 2",
            .documents = true},
        Config{
            .name = "CcgqaOfDocumentsBf16",
            .model = "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 1, "
                     "intermediate_size: 17, vocab_size: 31, attention_kind: ccgqa, ccgqa: {compression: 2}",
            .train = "sequence_len: 19, micro_batch_size: 2",
            .activations = ir::DType::bf16,
            .documents = true},
        Config{"CcgqaAsManyKeysFp16",
               "hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 17, "
               "vocab_size: 31, attention_kind: ccgqa, ccgqa: {compression: 2, head_conv: false}",
               "sequence_len: 2, micro_batch_size: 3", ir::DType::f16},
        Config{
            .name = "CcgqaGenerates",
            .model = "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
                     "intermediate_size: 17, vocab_size: 31, attention_kind: ccgqa, ccgqa: {compression: 2}",
            .train = "sequence_len: 9, micro_batch_size: 2",
            .activations = ir::DType::bf16,
            .replies = 2},
        Config{"Mod",
               "hidden_size: 24, num_hidden_layers: 4, num_attention_heads: 3, intermediate_size: 17, "
               "vocab_size: 31, "
               "mod: {capacity: 0.3}",
               "sequence_len: 19, micro_batch_size: 2, gradient_accumulation_steps: 2"},
        Config{"ModBf16",
               "hidden_size: 64, num_hidden_layers: 6, num_attention_heads: 4, intermediate_size: 16, "
               "vocab_size: 31, "
               "mod: {capacity: 0.25, every: 3}",
               "sequence_len: 33, micro_batch_size: 2", ir::DType::bf16},
        Config{"OneToken",
               "hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, intermediate_size: 1, "
               "vocab_size: 3, hidden_act: silu",
               "sequence_len: 1, micro_batch_size: 1"},
        Config{"OwnFunctions",
               "hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 3, intermediate_size: 19, "
               "vocab_size: 31, hidden_act: " EVERY_OPERATION,
               "sequence_len: 9, micro_batch_size: 3, lr_scheduler: {name: " OWN_CURVE "}"},
        Config{"OwnGatedAndLossBf16",
               "input: series, num_features: 3, hidden_size: 8, num_hidden_layers: 2, num_attention_heads: "
               "1, head: regression, hidden_act: " OWN_GATED,
               "sequence_len: 11, micro_batch_size: 5, loss: " OWN_LOSS
               ", lr_scheduler: {name: " OWN_FLOAT_CURVE "}",
               ir::DType::bf16, "[y, z]"},
        Config{"ClassesBf16",
               "input: series, num_features: 5, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: "
               "2, head: classification, num_labels: 2, norm: layernorm, norm_bias: false, hidden_act: "
               "swiglu, position: rope, attention_bias: false",
               "sequence_len: 9, micro_batch_size: 5",
               ir::DType::bf16,
               "[y]",
               {.attn = true, .mlp = true}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hydrac::test
