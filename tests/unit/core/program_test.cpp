// Whole functions as the runtime runs them: every call on addresses of the planned arena, kernels compiled,
// matmuls as plain loops. Losses, gradients and updated parameters equal the interpretation of the unfused
// graph in float64, so fusion, aliasing, liveness, addresses, attention's calls and generated kernels are
// right together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiled.h"
#include "plan/plan.h"
#include "small_models.h"

namespace hydrac::test {
namespace {

struct Config {
  const char* name;
  const char* model;
  const char* train;
  const char* targets = "";
  passes::RecomputeChoice recompute = {};
  std::optional<passes::HeadParts> head_parts = {};
  spec::Precision precision = spec::Precision::fp32;  // fp16: with loss scaling, but still computed in floats
  bool documents = false;
};

spec::Spec spec_of(const Config& config) {
  spec::Spec spec = small_spec(config.model, config.train, config.targets);
  spec.optimizations.precision = config.precision;
  spec.data.document_mask = config.documents;
  return spec;
}

void PrintTo(const Config& config, std::ostream* os) {
  *os << config.name;
}

// A program on an arena whose every byte starts as NaN.
class ArenaRun {
 public:
  explicit ArenaRun(SmallModel& small)
      : graph_(small.graph),
        program_(codegen::build_cpu_program(small.graph, 2)),
        plan_(plan::make_plan(small.graph)),
        compiled_(codegen::cpu_source(small.graph, program_)),
        words_(plan_.arena_bytes / 4 + 16, 0x7FC0DEAD) {
    base_ = reinterpret_cast<std::byte*>(words_.data());
    base_ += (64 - reinterpret_cast<uintptr_t>(base_) % 64) % 64;
  }

  std::vector<std::string> problems() const {
    std::vector<std::string> all = plan::verify(graph_, plan_);
    std::ranges::copy(program::verify(graph_, program_), std::back_inserter(all));
    return all;
  }

  // Everything that lives as long as the program.
  void load(const Interpreter& state) {
    for (const ir::Value& value : graph_.values) {
      if (value.view || value.role == ir::Role::activation) continue;
      for (int slot = 0; slot < value.slots; ++slot) {
        std::byte* at = base_ + address(graph_, plan_, {value.id, {false, slot}}, 0);
        for (double x : state.read({value.id, {false, slot}})) {
          const uint32_t word = word_of(value.dtype, x);
          std::memcpy(at, &word, sizeof word);
          at += sizeof word;
        }
      }
    }
  }

  std::vector<float> floats(ir::ValueId id) const {
    std::vector<float> result(element_count(graph_.value(id).shape));
    std::memcpy(result.data(), base_ + address(graph_, plan_, {id, {}}, 0), result.size() * 4);
    return result;
  }

  void run(const std::string& name) {
    for (const program::Function& function : program_.functions) {
      if (function.name != name) continue;
      for (const program::Section& section : function.sections) {
        const int iterations = std::max(section.layers, 1);
        for (int i = 0; i < iterations; ++i) {
          const int layer = section.reverse ? iterations - 1 - i : i;
          for (const program::Call& call : section.calls) run(call, layer, i);
        }
      }
    }
  }

 private:
  void run(const program::Call& call, int layer, int iteration) {
    std::vector<void*> arguments;
    for (ir::Use use : call.arguments) arguments.push_back(base_ + address(graph_, plan_, use, layer));
    if (const auto* launch = std::get_if<program::Launch>(&call.work)) {
      compiled_.find(program_.kernels[launch->kernel].name)(arguments.data(), layer, launch->grid.blocks);
      return;
    }
    const program::GemmShape& g = std::get<program::Gemm>(call.work).shape;
    const auto *a = static_cast<const float*>(arguments[0]), *b = static_cast<const float*>(arguments[1]);
    auto* c = static_cast<float*>(arguments[2]);
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        double sum = g.accumulates(iteration) ? c[i * g.n + j] : 0;
        for (int64_t k = 0; k < g.k; ++k) {
          sum += static_cast<double>(a[g.transpose_a ? k * g.m + i : i * g.k + k]) *
                 b[g.transpose_b ? j * g.k + k : k * g.n + j];
        }
        c[i * g.n + j] = static_cast<float>(sum);
      }
    }
  }

  const ir::Graph& graph_;
  program::Program program_;
  plan::Plan plan_;
  CompiledKernels compiled_;
  std::vector<uint32_t> words_;
  std::byte* base_ = nullptr;
};

void expect_near(const std::vector<float>& found, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  double square = 0;
  for (double x : expected) square += x * x;
  const double scale = std::sqrt(square / static_cast<double>(expected.size()));
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * (std::abs(expected[i]) + scale))
        << what << " element " << i;
  }
}

class WholeProgram : public testing::TestWithParam<Config> {};

TEST_P(WholeProgram, EqualsTheUnfusedGraphInFloat64) {
  const Config& config = GetParam();
  const spec::Spec spec = spec_of(config);
  const bool accumulate = spec.train.gradient_accumulation_steps > 1;
  const SmallModel plain(spec, {.accumulate = accumulate, .all_functions = true});
  SmallModel lowered(spec, {.recompute = config.recompute,
                            .accumulate = accumulate,
                            .all_functions = true,
                            .fuse = true,
                            .in_place = true,
                            .head_parts = config.head_parts});
  Interpreter expected(plain.graph), start(lowered.graph);
  plain.fill(expected);
  lowered.fill(start);
  ArenaRun run(lowered);
  ASSERT_EQ(run.problems(), std::vector<std::string>{});
  run.load(start);
  const auto compare = [&](const std::string& name, double tolerance) {
    expect_near(run.floats(lowered.graph.find(name)), expected.read({plain.graph.find(name), {}}), tolerance,
                name);
  };
  for (int step = 0; step < 2; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    for (int micro = 0; micro < spec.train.gradient_accumulation_steps; ++micro) {
      run.run("micro_step");
      expected.run("micro_step");
    }
    compare("loss", 1e-5);
    compare("gradients", 1e-4);
    run.run("update");
    expected.run("update");
    for (const char* name : {"grad_norm", "learning_rate", "step_loss"}) compare(name, 1e-4);
    run.run("evaluate");
    expected.run("evaluate");
    compare("eval_loss", 1e-4);
    if (lowered.model->graph.results.eval_hits != ir::kNoValue) compare("eval_hits", 0);
    if (lowered.model->graph.results.logits == ir::kNoValue) continue;
    run.run("generate");
    expected.run("generate");
    compare("next_logits", 1e-3);
  }
  compare("parameters", 1e-3);
}

constexpr const char* kAccumulate =
    "sequence_len: 7, micro_batch_size: 3, gradient_accumulation_steps: 2, label_smoothing: 0.1, optimizer: "
    "{name: sgd, learning_rate: 0.01}, lr_scheduler: {name: constant}";
constexpr const char* kPlain =
    "sequence_len: 9, micro_batch_size: 2, optimizer: {name: sgd, learning_rate: 0.01}, lr_scheduler: {name: "
    "cosine, warmup_steps: 1}";

constexpr const char* kScaledModel =
    "hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 20, vocab_size: 31";

INSTANTIATE_TEST_SUITE_P(
    Small, WholeProgram,
    testing::Values(
        Config{"Llama",
               "hidden_size: 16, num_hidden_layers: 3, num_attention_heads: 4, head_dim: 8, "
               "num_key_value_heads: 2, intermediate_size: 20, vocab_size: 31, dropout: 0.2, "
               "attention_dropout: 0.1",
               kAccumulate},
        Config{"LlamaRecomputed",
               "hidden_size: 16, num_hidden_layers: 3, num_attention_heads: 4, head_dim: 8, "
               "num_key_value_heads: 2, intermediate_size: 20, vocab_size: 31, dropout: 0.2, "
               "attention_dropout: 0.1",
               kAccumulate,
               "",
               {.block = true}},
        Config{"Gpt2",
               "hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 20, "
               "vocab_size: 31, norm: layernorm, position: learned, hidden_act: gelu, tie_word_embeddings: "
               "false",
               kPlain},
        Config{"Qwen3",
               "hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, num_key_value_heads: 1, "
               "intermediate_size: 20, vocab_size: 31, qk_norm: true",
               kPlain,
               "",
               {.norm = true, .act = true, .attn = true}},
        Config{"LlamaHeadInSevenParts",
               "hidden_size: 16, num_hidden_layers: 3, num_attention_heads: 2, intermediate_size: 20, "
               "vocab_size: 31",
               kAccumulate,
               "",
               {.norm = true},
               passes::HeadParts{3 * 31 * 4, 3}},
        Config{"Gpt2HeadInSixParts",
               "hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 20, "
               "vocab_size: 31, norm: layernorm, position: learned, hidden_act: gelu, tie_word_embeddings: "
               "false",
               kPlain,
               "",
               {},
               passes::HeadParts{3 * 31 * 4, 1}},
        Config{"Classes",
               "input: series, num_features: 3, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: "
               "2, head: classification, num_labels: 5",
               kAccumulate, "[y]"},
        Config{"ClassesInParts",
               "input: series, num_features: 3, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: "
               "2, head: classification, num_labels: 5",
               kPlain,
               "[y]",
               {},
               passes::HeadParts{9 * 5 * 4, 1}},
        Config{"Series",
               "input: series, num_features: 3, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: "
               "2, head: regression, norm: layernorm, hidden_act: gelu, position: learned, dropout: 0.1",
               kPlain, "[y]"},
        Config{"LossScaling",
               kScaledModel,
               "sequence_len: 9, micro_batch_size: 2, optimizer: {name: adamw, eps: 1.0e-3}",
               "",
               {},
               {},
               spec::Precision::fp16},
        Config{"LossScalingAccumulated", kScaledModel, kAccumulate, "", {}, {}, spec::Precision::fp16},
        Config{"LlamaWithDocuments",
               "hidden_size: 16, num_hidden_layers: 3, num_attention_heads: 4, head_dim: 8, "
               "num_key_value_heads: 2, intermediate_size: 20, vocab_size: 31, attention_dropout: 0.1, "
               "sliding_window: 2, sliding_window_pattern: 2",
               kAccumulate,
               "",
               {.block = true},
               {},
               spec::Precision::fp32,
               true},
        Config{"Gpt2WithDocuments",
               "hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 20, "
               "vocab_size: 31, norm: layernorm, position: learned, max_position_embeddings: 12",
               kAccumulate,
               "",
               {},
               {},
               spec::Precision::fp32,
               true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hydrac::test
