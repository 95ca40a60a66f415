// Matmuls with fused epilogues: the generated epilogues run by the emulator behind a plain matmul equal the
// definition in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "../core/own_functions.h"
#include "codegen/cuda/body.h"
#include "codegen/cuda/matmul.h"
#include "codegen/cuda/program.h"
#include "emulated_body.h"
#include "fused_matmuls.h"
#include "gpu_model.h"
#include "ops/builder.h"
#include "passes/matmul_epilogue.h"

namespace hydrac::test {
namespace {

// Quarters from -1.5 to 1.5.
void write_numbers(const ir::Graph& graph, Interpreter& state, ir::Use use) {
  std::vector<double> numbers(element_count(graph.value(use).shape));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.25 * static_cast<double>(i * 7 % 13) - 1.5;
  state.write(use, numbers);
}

struct Config {
  const char* name;
  const char* model;
  const char* train;
  std::vector<std::string> matmuls;  // what must be found
  ir::DType activations = ir::DType::bf16;
  passes::RecomputeChoice recompute = {};
};

void PrintTo(const Config& config, std::ostream* os) {
  *os << config.name;
}

class FusedMatmuls : public testing::TestWithParam<Config> {};

// The same with one tile a block, where the kernel takes it.
std::optional<ir::Node> as_one_tile(const ir::Graph& graph, ir::Node node) {
  const cuda::MatmulProblem problem = codegen::plan_matmul(graph, node, *targets::find("sm_90")).problem;
  if (passes::schedule_of(node) != cuda::MatmulSchedule::persistent ||
      !matmul_supports(problem, cuda::MatmulSchedule::one_tile))
    return {};
  node.attributes["schedule"] = "one_tile";
  return node;
}

TEST_P(FusedMatmuls, EqualTheirDefinitionInAnyOrderOfThreads) {
  const Config& config = GetParam();
  const GpuModel model(small_spec(config.model, config.train), config.activations, config.recompute,
                       kWhereverPossible);
  std::set<std::string> found;
  for (const auto& [node, layer] : fused_matmuls(model.graph)) {
    SCOPED_TRACE(to_text(model.graph, *node));
    found.insert(name_of(*node));
    Interpreter state(model.graph);
    randomize(model, state);
    EXPECT_EQ(differences(model.graph, state, *node, layer), std::vector<std::string>{});
    if (const std::optional<ir::Node> other = as_one_tile(model.graph, *node)) {
      Interpreter again(model.graph);
      randomize(model, again);
      EXPECT_EQ(differences(model.graph, again, *other, layer), std::vector<std::string>{});
    }
  }
  for (const std::string& matmul : config.matmuls)
    EXPECT_TRUE(found.contains(matmul)) << matmul << " is not among " << testing::PrintToString(found);
}

constexpr const char* kLlama =
    "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, num_key_value_heads: 1, "
    "intermediate_size: 24, "
    "vocab_size: 97";

constexpr const char* kOwnActivation =
    "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, intermediate_size: 72, vocab_size: 97, "
    "norm: layernorm, position: learned, hidden_act: " EVERY_OPERATION;

// As wide as the kernel for whole rows takes it.
constexpr const char* kGpt2Rows =
    "hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 72, vocab_size: 97, "
    "norm: layernorm, position: learned, hidden_act: gelu_tanh";
constexpr const char* kGpt2RowsWithDropout =
    "hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 72, vocab_size: 97, "
    "norm: layernorm, position: learned, hidden_act: gelu_tanh, dropout: 0.25";
constexpr const char* kLlamaRows =
    "hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 24, vocab_size: 97";

INSTANTIATE_TEST_SUITE_P(
    Small, FusedMatmuls,
    testing::Values(Config{"Gpt2",
                           kGpt2,
                           "sequence_len: 45, micro_batch_size: 3",
                           {"matmul+bias", "matmul+gelu_tanh", "matmul+gelu_tanh_backward+bias_gradient"}},
                    Config{"OwnActivation",
                           kOwnActivation,
                           "sequence_len: 7, micro_batch_size: 3, gradient_accumulation_steps: 2",
                           {},
                           ir::DType::f16},
                    Config{"Gpt2Recomputed",
                           kGpt2,
                           "sequence_len: 7, micro_batch_size: 3, gradient_accumulation_steps: 2",
                           {"matmul+gelu_tanh+gelu_tanh_backward+bias_gradient"},
                           ir::DType::f16,
                           {.act = true}},
                    Config{"Llama",
                           kLlama,
                           "sequence_len: 45, micro_batch_size: 3",
                           {"matmul+swiglu", "matmul+swiglu_backward"}},
                    Config{"LlamaRecomputed",
                           kLlama,
                           "sequence_len: 5, micro_batch_size: 1",
                           {"matmul+swiglu+swiglu_backward"},
                           ir::DType::f16,
                           {.norm = true, .act = true}},
                    Config{"Gpt2WholeRows",
                           kGpt2Rows,
                           "sequence_len: 45, micro_batch_size: 3, gradient_accumulation_steps: 2",
                           {"matmul+add+layernorm",
                            "matmul+layernorm_backward+add+layernorm_weight_gradient+"
                            "bias_gradient+cast+bias_gradient"}},
                    Config{"Gpt2WholeRowsWithDropout",
                           kGpt2RowsWithDropout,
                           "sequence_len: 7, micro_batch_size: 3",
                           {"matmul+dropout+add+layernorm"},
                           ir::DType::f16},
                    Config{
                        "LlamaWholeRows",
                        kLlamaRows,
                        "sequence_len: 23, micro_batch_size: 3",
                        {"matmul+add+rmsnorm", "matmul+rmsnorm_backward+add+rmsnorm_weight_gradient+cast"}}),
    [](const auto& info) { return std::string(info.param.name); });

// In float64, where nothing is rounded but inside kernels.
TEST_P(FusedMatmuls, KeepEveryBitOfTheGradients) {
  const Config& config = GetParam();
  const auto gradients = [&](const std::optional<passes::FusedMatmuls>& matmuls) {
    const GpuModel model(small_spec(config.model, config.train), config.activations, config.recompute,
                         matmuls);
    return gradients_of(model);
  };
  const auto expected = gradients(std::nullopt);
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(gradients(kWhereverPossible), expected);
}

// Dropout behind a matmul: its key is found once for many rows, and its bits by the element's number.
TEST(FusedMatmul, DropsTheElementsThatAKernelOfItsOwnWould) {
  ir::Graph graph;
  const auto add = [&](const std::string& name, const ir::Shape& shape, ir::DType dtype, ir::Role role) {
    return add_value(graph, name, shape, dtype, role);
  };
  const ir::Shape x_shape{{130, "B"}, {16, "C"}}, w_shape{{24, "N"}, {16, "C"}},
      y_shape{{130, "B"}, {24, "N"}};
  const auto bf16 = ir::DType::bf16, u32 = ir::DType::u32;
  const ir::Use x = add("x", x_shape, bf16, ir::Role::input), w = add("w", w_shape, bf16, ir::Role::input),
                step = add("rng_step", {}, u32, ir::Role::state),
                seed = add("rng_seed", {}, u32, ir::Role::state),
                matmul = add("matmul", y_shape, bf16, ir::Role::activation),
                y = add("y", y_shape, bf16, ir::Role::activation);
  graph.functions.push_back({"f", {{"only", 0, false, false, {}}}});
  ir::Region& region = graph.functions[0].regions[0];
  ops::RegionBuilder build(graph, region);
  build.emit_node(ir::Op::gemm, {x, w}, {matmul},
                  {{"transpose_a", false}, {"transpose_b", true}, {"accumulate", false}});
  build.emit_node(ir::Op::dropout, {matmul, step, seed}, {y}, {{"p", 0.25}, {"site", int64_t{3}}});
  passes::Log log;
  passes::expand(graph, {}, log);
  passes::fuse_matmuls(graph, kWhereverPossible, {y.value}, log);
  ASSERT_EQ(region.nodes.size(), 1u);
  ASSERT_EQ(ir::verify(graph), std::vector<std::string>{});
  Interpreter state(graph);
  for (const ir::Use use : {x, w}) write_numbers(graph, state, use);
  state.write(step, {11});
  state.write(seed, {1234});
  EXPECT_EQ(differences(graph, state, region.nodes[0], 0), std::vector<std::string>{});
  const std::vector<double> kept = state.read(y);
  const auto zeros = std::ranges::count(kept, 0.0);
  EXPECT_GT(zeros, static_cast<std::ptrdiff_t>(kept.size() / 6));
  EXPECT_LT(zeros, static_cast<std::ptrdiff_t>(kept.size() / 2));
}

// A matmul that nothing is fused to, in either layout, with rows and columns that no tile divides.
TEST(PlainMatmul, IsTheMatmul) {
  for (const bool transposed : {true, false}) {
    ir::Graph graph;
    const auto add = [&](const std::string& name, const ir::Shape& shape, ir::Role role) {
      return add_value(graph, name, shape, ir::DType::bf16, role);
    };
    const ir::Dim rows{130, "B"}, n{72, "N"}, k{24, "C"};
    const ir::Use x = add("x", {rows, k}, ir::Role::input),
                  w = add("w", transposed ? ir::Shape{n, k} : ir::Shape{k, n}, ir::Role::parameter),
                  y = add("y", {rows, n}, ir::Role::activation);
    graph.functions.push_back({"f", {{"only", 0, false, false, {}}}});
    ir::Region& region = graph.functions[0].regions[0];
    ops::RegionBuilder build(graph, region);
    build.emit_node(ir::Op::gemm, {x, w}, {y},
                    {{"transpose_a", false}, {"transpose_b", transposed}, {"accumulate", false}});
    region.nodes[0] = passes::plain_matmul(graph, region.nodes[0], cuda::MatmulSchedule::one_tile);
    ASSERT_EQ(ir::verify(graph), std::vector<std::string>{});
    Interpreter state(graph);
    for (const ir::Use use : {x, w}) write_numbers(graph, state, use);
    EXPECT_EQ(differences(graph, state, region.nodes[0], 0), std::vector<std::string>{});
    const std::vector<double> matmul = state.read(y);
    EXPECT_GT(std::ranges::count_if(matmul, [](double number) { return number != 0; }), 0);
  }
}

}  // namespace
}  // namespace hydrac::test
