// Generated C++ against the definition: every fused kernel of small models with odd sizes, compiled and run
// on random tensors, equals ir::evaluate in float64; and its bits do not depend on the number of threads.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiled.h"
#include "own_functions.h"
#include "plan/plan.h"
#include "small_models.h"
#include "tests/unit/core/routing_values.h"

namespace hydrac::test {
namespace {

struct Config {
  const char* name;
  const char* model;
  const char* train;
  const char* targets = "";
  passes::RecomputeChoice recompute = {};
  spec::StateType optimizer_state = spec::StateType::fp32;
  bool documents = false;  // sequences have several
  spec::ObjectiveName objective = spec::ObjectiveName::none;
};

void PrintTo(const Config& config, std::ostream* os) {
  *os << config.name;
}

float rounded(double x) {
  return static_cast<float>(x);
}

// Values for everything a kernel may read, all of them float32 numbers. What must be positive is.
void randomize(const SmallModel& small, Interpreter& state) {
  std::mt19937 random(8);
  std::normal_distribution<double> normal(0, 1);
  for (const ir::Value& value : small.graph.values) {
    if (value.view || value.dtype != ir::DType::f32 || value.role == ir::Role::input ||
        value.role == ir::Role::constant)
      continue;
    const bool positive = value.name == "adam.v" || value.name.ends_with(".rstd") ||
                          value.name == "grad_square" || value.name.starts_with("adam.") ||
                          value.name == "learning_rate" || value.name.ends_with(".scales");
    for (int slot = 0; slot < value.slots; ++slot) {
      std::vector<double> numbers(element_count(value.shape));
      for (double& x : numbers) x = rounded(positive ? std::abs(normal(random)) + 0.1 : normal(random));
      state.write({value.id, {false, slot}}, numbers);
    }
  }
  Interpreter inputs(small.graph);
  small.fill(inputs, 3);
  for (const ir::Value& value : small.graph.values) {
    if (value.dtype != ir::DType::u8) continue;
    std::vector<double> codes(element_count(value.shape));
    for (double& code : codes) code = random() % 256;
    inputs.write({value.id, {}}, codes);
  }
  for (const ir::Value& value : small.graph.values) {
    if (value.role != ir::Role::input && value.role != ir::Role::constant && value.dtype == ir::DType::f32)
      continue;
    std::vector<double> numbers = inputs.read({value.id, {}});
    if (value.dtype == ir::DType::f32) std::ranges::transform(numbers, numbers.begin(), rounded);
    state.write({value.id, {}}, numbers);
  }
  for (const ir::Value& value : small.graph.values) {
    if (const auto numbers = routing_values(small.graph, value))
      for (int slot = 0; slot < value.slots; ++slot) state.write({value.id, {false, slot}}, *numbers);
  }
}

class Kernels : public testing::TestWithParam<Config> {};

TEST_P(Kernels, EqualTheirBodiesAndKeepTheirBitsOnAnyNumberOfThreads) {
  const Config& config = GetParam();
  spec::Spec spec = small_spec(config.model, config.train, config.targets);
  spec.data.document_mask = config.documents;
  spec.objective.name = config.objective;
  spec.optimizations.optimizer_state = config.optimizer_state;
  SmallModel small(spec,
                   {.recompute = config.recompute, .all_functions = true, .fuse = true, .in_place = true});
  for (ir::Function& function : small.graph.functions) {
    for (ir::Region& region : function.regions)
      std::erase_if(region.nodes, [](const ir::Node& node) { return node.op != ir::Op::fused; });
  }
  const program::Program program = codegen::build_cpu_program(small.graph, 4);
  ASSERT_EQ(program::verify(small.graph, program), std::vector<std::string>{});
  const CompiledKernels compiled(codegen::cpu_source(small.graph, program));
  std::set<int> seen;
  for (size_t f = 0; f < program.functions.size(); ++f) {
    for (size_t s = 0; s < program.functions[f].sections.size(); ++s) {
      const program::Section& section = program.functions[f].sections[s];
      const int layer = section.layers > 1 ? 1 : 0;
      for (size_t c = 0; c < section.calls.size(); ++c) {
        const program::Call& call = section.calls[c];
        const auto& launch = std::get<program::Launch>(call.work);
        if (!seen.insert(launch.kernel).second) continue;
        const program::Kernel& kernel = program.kernels[launch.kernel];
        SCOPED_TRACE(program.functions[f].name + "." + section.name + ": " + kernel.comment + "\n" +
                     kernel.text);
        Interpreter state(small.graph);
        randomize(small, state);
        KernelMemory memory(small.graph, state, call, layer);
        std::string one_thread;
        for (int threads : {1, 2, 4}) {
          omp_set_num_threads(threads);
          KernelMemory again(small.graph, state, call, layer);
          again.run(compiled.find(kernel.name), layer);
          if (threads == 1) one_thread = again.bytes();
          EXPECT_EQ(again.bytes() == one_thread, true) << threads << " threads give other bits";
        }
        memory.run(compiled.find(kernel.name), layer);
        state.run(small.graph.functions[f].regions[s].nodes[c], layer);
        EXPECT_EQ(memory.compare(state), std::vector<std::string>{});
      }
    }
  }
  EXPECT_EQ(seen.size(), program.kernels.size());
}

INSTANTIATE_TEST_SUITE_P(
    Small, Kernels,
    testing::Values(
        Config{"Llama",
               "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, num_key_value_heads: 1, "
               "intermediate_size: 52, vocab_size: 97, dropout: 0.3",
               "sequence_len: 7, micro_batch_size: 3, label_smoothing: 0.1"},
        Config{"Gpt2",
               "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, intermediate_size: 33, "
               "vocab_size: 517, norm: layernorm, position: learned, hidden_act: gelu, "
               "max_position_embeddings: 9, attention_dropout: 0.2, dropout: 0.1",
               "sequence_len: 7, micro_batch_size: 2, gradient_accumulation_steps: 2, optimizer: {name: "
               "lion}, lr_scheduler: {name: linear, warmup_steps: 3}"},
        Config{"Int8State",
               "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, intermediate_size: 52, "
               "vocab_size: 137",
               "sequence_len: 7, micro_batch_size: 3, gradient_accumulation_steps: 2",
               "",
               {},
               spec::StateType::int8},
        Config{"Int8StateLion",
               "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, intermediate_size: 52, "
               "vocab_size: 137",
               "sequence_len: 7, micro_batch_size: 3, optimizer: {name: lion}",
               "",
               {},
               spec::StateType::int8},
        Config{"LargeVocabulary",
               "hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, intermediate_size: 3, "
               "vocab_size: 50257, position: none",
               "sequence_len: 3, micro_batch_size: 1, label_smoothing: 0.2, optimizer: {name: sgd}"},
        Config{"Qwen3",
               "hidden_size: 24, num_hidden_layers: 3, num_attention_heads: 3, num_key_value_heads: 1, "
               "intermediate_size: 17, vocab_size: 5, qk_norm: true, tie_word_embeddings: false, hidden_act: "
               "geglu",
               "sequence_len: 130, micro_batch_size: 4, optimizer: {name: sgd}, lr_scheduler: {name: wsd}",
               "",
               {.block = true}},
        Config{"Recursions",
               "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, num_key_value_heads: 1, "
               "intermediate_size: "
               "52, vocab_size: 97, dropout: 0.3, mor: {recursions: 3}",
               "sequence_len: 7, micro_batch_size: 3, gradient_accumulation_steps: 2"},
        Config{"RecursionsOfLayernormTheBlockRecomputed",
               "hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 3, intermediate_size: 17, "
               "vocab_size: 31, norm: layernorm, hidden_act: gelu, mlp_bias: true, mor: {recursions: 2, "
               "aux_warmup_steps: 0}",
               "sequence_len: 130, micro_batch_size: 2",
               "",
               {.block = true}},
        Config{"Ccgqa",
               "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
               "intermediate_size: 17, vocab_size: 31, attention_kind: ccgqa, ccgqa: {compression: 2}",
               "sequence_len: 37, micro_batch_size: 2, gradient_accumulation_steps: 2"},
        Config{
            .name = "CcgqaOfDocuments",
            .model = "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 1, "
                     "intermediate_size: 17, vocab_size: 31, attention_kind: ccgqa, ccgqa: {compression: 2}",
            .train = "sequence_len: 37, micro_batch_size: 2",
            .documents = true},
        Config{"CcgqaAsManyKeys",
               "hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 17, "
               "vocab_size: 31, attention_kind: ccgqa, ccgqa: {compression: 2, head_conv: false}",
               "sequence_len: 2, micro_batch_size: 3"},
        Config{"Mod",
               "hidden_size: 24, num_hidden_layers: 4, num_attention_heads: 3, intermediate_size: 17, "
               "vocab_size: 31, "
               "mod: {capacity: 0.3}",
               "sequence_len: 37, micro_batch_size: 2, gradient_accumulation_steps: 2"},
        Config{"Experts",
               "hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 3, intermediate_size: 17, "
               "vocab_size: 31, moe: {experts: 5, top_k: 3, z_loss_coef: 0.01}",
               "sequence_len: 37, micro_batch_size: 2, gradient_accumulation_steps: 2"},
        Config{"ExpertsOfSigmoidsTheBlockRecomputed",
               "hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 3, hidden_act: gelu, "
               "mlp_bias: false, vocab_size: 31, moe: {experts: 3, top_k: 1, intermediate_size: 13, "
               "scoring: sigmoid, normalize_top_k: false, routed_scale: 2.5}",
               "sequence_len: 130, micro_batch_size: 1",
               "",
               {.block = true}},
        Config{"WindowsAndSoftcaps",
               "hidden_size: 24, num_hidden_layers: 3, num_attention_heads: 3, num_key_value_heads: 1, "
               "intermediate_size: 17, vocab_size: 97, sliding_window: 50, sliding_window_pattern: 2, "
               "attention_softcap: 0.5, logit_softcap: 0.7, attention_dropout: 0.2",
               "sequence_len: 130, micro_batch_size: 2, label_smoothing: 0.1"},
        Config{"Olmo2",
               "hidden_size: 24, num_hidden_layers: 3, num_attention_heads: 3, num_key_value_heads: 1, "
               "intermediate_size: 17, vocab_size: 31, norm_placement: output, qk_norm: true, "
               "qk_norm_scope: projection",
               "sequence_len: 37, micro_batch_size: 2"},
        Config{"Gemma2",
               "hidden_size: 24, num_hidden_layers: 3, num_attention_heads: 3, num_key_value_heads: 1, "
               "intermediate_size: 17, vocab_size: 31, hidden_act: geglu_tanh, norm_placement: both, "
               "norm_offset: 1, "
               "embedding_scale: 2.5, residual_scale: 0.5, logit_scale: 0.75, attention_scale: 0.6",
               "sequence_len: 37, micro_batch_size: 2"},
        Config{"Parallel",
               "hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 3, num_key_value_heads: 1, "
               "intermediate_size: 17, vocab_size: 31, norm: layernorm, hidden_act: gelu, block: parallel, "
               "dropout: 0.1",
               "sequence_len: 37, micro_batch_size: 2"},
        Config{"ParallelWithOneNorm",
               "hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 3, num_key_value_heads: 1, "
               "intermediate_size: 17, vocab_size: 31, block: parallel_one_norm",
               "sequence_len: 37, micro_batch_size: 2"},
        Config{"Encoder",
               "input: series, num_features: 3, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: "
               "2, head: classification, num_labels: 3, attention_mask: none, logit_softcap: 0.7",
               "sequence_len: 70, micro_batch_size: 3", "[y]"},
        Config{"OneTarget",
               "input: series, num_features: 3, hidden_size: 8, num_hidden_layers: 2, num_attention_heads: "
               "1, head: regression, norm: layernorm, hidden_act: gelu_tanh, position: learned",
               "sequence_len: 48, micro_batch_size: 11, lr_scheduler: {name: constant}", "[y]"},
        Config{"ThreeTargets",
               "input: series, num_features: 1, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: "
               "1, head: regression, hidden_act: relu2, position: none, mlp_bias: true",
               "sequence_len: 11, micro_batch_size: 1",
               "[x, y, z]",
               {.norm = true, .act = true}},
        Config{"OneToken",
               "hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, intermediate_size: 1, "
               "vocab_size: 3, hidden_act: silu",
               "sequence_len: 1, micro_batch_size: 1"},
        Config{"OwnFunctions",
               "hidden_size: 24, num_hidden_layers: 2, num_attention_heads: 3, intermediate_size: 19, "
               "vocab_size: 31, hidden_act: " EVERY_OPERATION,
               "sequence_len: 9, micro_batch_size: 3, lr_scheduler: {name: " OWN_CURVE "}"},
        Config{"OwnGatedAndLoss",
               "input: series, num_features: 3, hidden_size: 8, num_hidden_layers: 2, num_attention_heads: "
               "1, head: regression, hidden_act: " OWN_GATED,
               "sequence_len: 11, micro_batch_size: 5, loss: " OWN_LOSS
               ", lr_scheduler: {name: " OWN_FLOAT_CURVE "}",
               "[y, z]"},
        Config{"Pairs",
               "hidden_size: 24, num_hidden_layers: 1, num_attention_heads: 3, vocab_size: 31",
               "sequence_len: 70, micro_batch_size: 3",
               "",
               {},
               spec::StateType::fp32,
               true,
               spec::ObjectiveName::dpo},
        Config{"PairsWithoutReference",
               "hidden_size: 24, num_hidden_layers: 1, num_attention_heads: 3, vocab_size: 31",
               "sequence_len: 70, micro_batch_size: 3, gradient_accumulation_steps: 2",
               "",
               {},
               spec::StateType::fp32,
               true,
               spec::ObjectiveName::orpo},
        Config{"Classes",
               "input: series, num_features: 5, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: "
               "2, head: classification, num_labels: 2, norm: layernorm, norm_bias: false, hidden_act: "
               "swiglu, position: rope, attention_bias: false",
               "sequence_len: 9, micro_batch_size: 5",
               "[y]",
               {.attn = true, .mlp = true}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hydrac::test
