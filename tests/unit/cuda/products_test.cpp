// Products with fused epilogues: the generated epilogues run by the emulator behind a plain product equal the
// definition in float64; and they compile behind the real one without spilling.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <set>

#include "../core/own_functions.h"
#include "codegen/cuda_body.h"
#include "codegen/cuda_product.h"
#include "codegen/cuda_program.h"
#include "cuda/small_product/geometry.h"
#include "cuda/stationary_product/geometry.h"
#include "emulated_body.h"
#include "fused_products.h"
#include "gpu_model.h"
#include "ops/builder.h"
#include "passes/elementwise_epilogue.h"
#include "passes/product_epilogue.h"
#include "resources.h"
#include "runtime/error.h"

namespace hydrac::test {
namespace {

constexpr passes::FusedProducts kWhereverPossible{.capability = 90, .wherever_possible = true};

ir::Use add_value(ir::Graph& graph, const std::string& name, const ir::Shape& shape, ir::DType dtype,
                  ir::Role role) {
  ir::Value value;
  value.name = name;
  value.dtype = dtype;
  value.shape = shape;
  value.role = role;
  return {graph.add(std::move(value)), {}};
}

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
  std::vector<std::string> products;  // what must be found
  ir::DType activations = ir::DType::bf16;
  passes::RecomputeChoice recompute = {};
  bool saves_slopes = false;
};

void PrintTo(const Config& config, std::ostream* os) {
  *os << config.name;
}

class FusedProducts : public testing::TestWithParam<Config> {};

// The same for the kernel of small products, where it takes it.
std::optional<ir::Node> as_small(const ir::Graph& graph, ir::Node node) {
  if (passes::product_kernel_of(node) != passes::product_kernel::kLarge ||
      !small_product_supports(codegen::product_problem(graph, node, *targets::find("sm_90"))))
    return {};
  node.attributes["kernel"] = passes::product_kernel::kSmall;
  return node;
}

// And for the kernel that keeps the right side in shared memory.
std::optional<ir::Node> as_stationary(const ir::Graph& graph, ir::Node node) {
  if (passes::product_kernel_of(node) != passes::product_kernel::kLarge ||
      passes::elementwise_outputs(graph, node).empty())
    return {};
  node.attributes["kernel"] = passes::product_kernel::kStationary;
  const cuda::ProductProblem problem = codegen::product_problem(graph, node, *targets::find("sm_90"));
  return stationary_product_supports(problem) ? std::optional(node) : std::nullopt;
}

TEST_P(FusedProducts, EqualTheirDefinitionInAnyOrderOfThreads) {
  const Config& config = GetParam();
  const GpuModel model(small_spec(config.model, config.train), config.activations, config.recompute,
                       kWhereverPossible, config.saves_slopes);
  std::set<std::string> found;
  for (const auto& [node, layer] : fused_products(model.graph)) {
    SCOPED_TRACE(to_text(model.graph, *node));
    found.insert(name_of(*node));
    Interpreter state(model.graph);
    randomize(model, state);
    EXPECT_EQ(differences(model.graph, state, *node, layer), std::vector<std::string>{});
    for (const std::optional<ir::Node>& other :
         {as_small(model.graph, *node), as_stationary(model.graph, *node)}) {
      if (!other) continue;
      if (passes::product_kernel_of(*other) == passes::product_kernel::kStationary)
        found.insert("stationary " + name_of(*node));
      Interpreter again(model.graph);
      randomize(model, again);
      EXPECT_EQ(differences(model.graph, again, *other, layer), std::vector<std::string>{});
    }
  }
  for (const std::string& product : config.products)
    EXPECT_TRUE(found.contains(product)) << product << " is not among " << testing::PrintToString(found);
}

constexpr const char* kGpt2 =
    "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, intermediate_size: 72, vocab_size: 517, "
    "norm: "
    "layernorm, position: learned, hidden_act: gelu_tanh";
constexpr const char* kLlama =
    "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, num_key_value_heads: 1, "
    "intermediate_size: 24, "
    "vocab_size: 97";

constexpr const char* kOwnActivation =
    "hidden_size: 40, num_hidden_layers: 2, num_attention_heads: 5, intermediate_size: 72, vocab_size: 97, "
    "norm: layernorm, position: learned, hidden_act: " EVERY_OPERATION;

// As wide as the kernel for whole rows takes it.
constexpr const char* kGpt2Rows =
    "hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 72, vocab_size: 97, "
    "norm: layernorm, position: learned, hidden_act: gelu_tanh";
constexpr const char* kGpt2RowsWithDropout =
    "hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 72, vocab_size: 97, "
    "norm: layernorm, position: learned, hidden_act: gelu_tanh, dropout: 0.25";
constexpr const char* kLlamaRows =
    "hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 24, vocab_size: 97";

INSTANTIATE_TEST_SUITE_P(
    Small, FusedProducts,
    testing::Values(Config{"Gpt2",
                           kGpt2,
                           "sequence_len: 45, micro_batch_size: 3",
                           {"product+bias", "product+gelu_tanh",
                            "product+gelu_tanh_slope+gelu_tanh_backward+bias_gradient",
                            "stationary product+bias", "stationary product+gelu_tanh"}},
                    Config{"Gpt2WithSlopes",
                           kGpt2,
                           "sequence_len: 45, micro_batch_size: 3",
                           {"product+gelu_tanh+gelu_tanh_slope", "product+gelu_tanh_backward+bias_gradient"},
                           ir::DType::bf16,
                           {},
                           true},
                    Config{"OwnActivationWithSlopes",
                           kOwnActivation,
                           "sequence_len: 7, micro_batch_size: 3, gradient_accumulation_steps: 2",
                           {},
                           ir::DType::f16,
                           {},
                           true},
                    Config{"Gpt2Recomputed",
                           kGpt2,
                           "sequence_len: 7, micro_batch_size: 3, gradient_accumulation_steps: 2",
                           {"product+gelu_tanh+gelu_tanh_slope+gelu_tanh_backward+bias_gradient"},
                           ir::DType::f16,
                           {.act = true}},
                    Config{"Llama",
                           kLlama,
                           "sequence_len: 45, micro_batch_size: 3",
                           {"product+swiglu", "product+swiglu_backward"}},
                    Config{"LlamaRecomputed",
                           kLlama,
                           "sequence_len: 5, micro_batch_size: 1",
                           {"product+swiglu+swiglu_backward"},
                           ir::DType::f16,
                           {.norm = true, .act = true}},
                    Config{"Gpt2WholeRows",
                           kGpt2Rows,
                           "sequence_len: 45, micro_batch_size: 3, gradient_accumulation_steps: 2",
                           {"product+add+layernorm",
                            "product+layernorm_backward+add+layernorm_weight_gradient+"
                            "bias_gradient+cast+bias_gradient"}},
                    Config{"Gpt2WholeRowsWithDropout",
                           kGpt2RowsWithDropout,
                           "sequence_len: 7, micro_batch_size: 3",
                           {"product+dropout+add+layernorm"},
                           ir::DType::f16},
                    Config{"LlamaWholeRows",
                           kLlamaRows,
                           "sequence_len: 45, micro_batch_size: 3",
                           {"product+add+rmsnorm",
                            "product+rmsnorm_backward+add+rmsnorm_weight_gradient+cast"}}),
    [](const auto& info) { return std::string(info.param.name); });

// Numbers that depend on a tensor's name alone, for what a micro-step reads: graphs differ in their
// activations.
void fill_by_name(const ir::Graph& graph, Interpreter& state) {
  for (const ir::Value& value : graph.values) {
    if (value.view || (value.role != ir::Role::parameter && value.role != ir::Role::working_copy &&
                       value.role != ir::Role::gradient))
      continue;
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(value.name)));
    std::normal_distribution<double> normal(0, 0.3);
    for (int slot = 0; slot < value.slots; ++slot) {
      std::vector<double> numbers(element_count(value.shape));
      for (double& x : numbers) x = rounded(value.dtype, normal(random));
      state.write({value.id, {false, slot}}, numbers);
    }
  }
}

// In float64, where nothing is rounded but inside kernels.
TEST_P(FusedProducts, KeepEveryBitOfTheGradients) {
  const Config& config = GetParam();
  const auto gradients = [&](const std::optional<passes::FusedProducts>& products) {
    const GpuModel model(small_spec(config.model, config.train), config.activations, config.recompute,
                         products);
    EXPECT_EQ(ir::verify(model.graph), std::vector<std::string>{});
    Interpreter state(model.graph);
    randomize(model, state);
    fill_by_name(model.graph, state);
    state.run("micro_step");
    std::map<std::string, std::vector<double>> found;
    for (const ir::Value& value : model.graph.values) {
      for (int slot = 0; slot < value.slots && value.role == ir::Role::gradient && !value.view; ++slot)
        found[value.name + std::to_string(slot)] = state.read({value.id, {false, slot}});
    }
    return found;
  };
  const auto expected = gradients(std::nullopt);
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(gradients(kWhereverPossible), expected);
}

TEST(FuseProducts, OfAGpt2Block) {
  const GpuModel model(shipped_spec("gpt2-124m"), ir::DType::bf16, {.act = true}, kWhereverPossible);
  EXPECT_EQ(nodes_of(model.graph, "micro_step", "block"),
            (Names{"product+bias", "attention", "gemm", "add+layernorm", "product+gelu_tanh", "gemm",
                   "add+layernorm"}));
  const Names backward = nodes_of(model.graph, "micro_step", "block_backward");
  EXPECT_TRUE(
      std::ranges::count(backward, "product+gelu_tanh+gelu_tanh_slope+gelu_tanh_backward+bias_gradient"));
}

// Evaluation stores it too, though nothing reads it there, so that it calls training's kernel; generation has
// other rows and so a kernel of its own.
TEST(FuseProducts, StoresAProductWhereSomethingElseReadsIt) {
  const GpuModel model(shipped_spec("llama-1b"), ir::DType::bf16, {}, kWhereverPossible);
  const auto stores_product = [&](const std::string& function) {
    const ir::Node& node = node_named(model.graph, function, "product+swiglu");
    return std::ranges::count(node.outputs, node.product) == 1 && node.outputs.size() == 2;
  };
  EXPECT_TRUE(stores_product("micro_step"));
  EXPECT_TRUE(stores_product("evaluate"));
  EXPECT_FALSE(stores_product("generate"));
}

TEST(FuseProducts, LeavesProductsToTheLibraryWhichComputesThemFaster) {
  const auto names = [](const passes::FusedProducts& products, ir::DType activations) {
    const GpuModel model(small_spec(kGpt2, "sequence_len: 45, micro_batch_size: 3"), activations, {},
                         products);
    return nodes_of(model.graph, "micro_step", "block");
  };
  EXPECT_EQ(names({.capability = 90}, ir::DType::bf16)[0], "gemm");
  EXPECT_EQ(names(kWhereverPossible, ir::DType::f32)[0], "gemm");
  EXPECT_EQ(names({.capability = 80, .wherever_possible = true}, ir::DType::bf16)[0], "gemm");
  EXPECT_EQ(names(kWhereverPossible, ir::DType::bf16)[0], "product+bias");
}

constexpr const char* kTiny =
    "hidden_size: 256, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 1024, vocab_size: "
    "256, "
    "norm: layernorm, position: learned, hidden_act: gelu_tanh";
constexpr const char* kTinyTrain = "sequence_len: 64, micro_batch_size: 32";

TEST(FuseProducts, OfASmallModelAreAllKernelsOfOurs) {
  const GpuModel model(small_spec(kTiny, kTinyTrain), ir::DType::bf16, {},
                       passes::FusedProducts{.capability = 90});
  EXPECT_EQ(nodes_of(model.graph, "micro_step", "block"),
            (Names{"product+bias", "attention", "product+add+layernorm", "product+gelu_tanh",
                   "product+add+layernorm"}));
  const Names backward = nodes_of(model.graph, "micro_step", "block_backward");
  EXPECT_EQ(std::ranges::count(backward, "plain_product"), 2);
  EXPECT_EQ(std::ranges::count(backward, "product+gelu_tanh_slope+gelu_tanh_backward+bias_gradient"), 1);
  EXPECT_EQ(std::ranges::count(backward, "gemm"), 0);
  EXPECT_EQ(std::ranges::count(backward, "weight_gradients"), 1);
  for (const auto& [node, layer] : fused_products(model.graph))
    EXPECT_NE(passes::product_kernel_of(*node), passes::product_kernel::kLarge);
}

// A kernel for small products loads its right side before the kernel before it ends.
TEST(FuseProducts, OfAMatrixThatTheFunctionWritesStayTheLibrarys) {
  for (const bool written : {false, true}) {
    ir::Graph graph;
    const auto add = [&](const std::string& name, const ir::Shape& shape, ir::Role role) {
      return add_value(graph, name, shape, ir::DType::bf16, role);
    };
    const ir::Dim rows{2048, "B"}, columns{256, "C"};
    const ir::Use x = add("x", {rows, columns}, ir::Role::input),
                  w = add("w", {columns, columns}, ir::Role::parameter),
                  y = add("y", {rows, columns}, ir::Role::activation),
                  update = add("update", {columns, columns}, ir::Role::input);
    graph.functions.push_back({"f", {{"first", 0, false, false, {}}, {"second", 0, false, false, {}}}});
    ops::RegionBuilder first(graph, graph.functions[0].regions[0]),
        second(graph, graph.functions[0].regions[1]);
    const ir::Attributes plain = {{"transpose_a", false}, {"transpose_b", true}, {"accumulate", false}};
    first.emit_node("gemm", {x, w}, {y}, plain);
    if (written) second.emit_node("gemm", {update, update}, {w}, plain);
    passes::Log log;
    passes::fuse_products(graph, {.capability = 90}, {}, log);
    EXPECT_EQ(graph.functions[0].regions[0].nodes[0].op, written ? "gemm" : "fused_product");
  }
}

// Other blocks still read all rows of a matrix when one writes.
TEST(FuseProducts, WriteNothingWhereTheirMatricesLie) {
  for (const char* spec : {"gpt2-124m", "llama-1b"}) {
    const GpuModel model(shipped_spec(spec), ir::DType::bf16, {.norm = true, .act = true}, kWhereverPossible);
    for (const auto& [node, layer] : fused_products(model.graph)) {
      for (const ir::Use output : node->outputs) {
        for (int matrix = 0; matrix < 2; ++matrix)
          EXPECT_NE(storage_of(model.graph, output.value),
                    storage_of(model.graph, node->inputs[matrix].value))
              << to_text(model.graph, *node);
      }
    }
  }
}

// Dropout behind a product: its key is found once for many rows, and its bits by the element's number.
TEST(FusedProduct, DropsTheElementsThatAKernelOfItsOwnWould) {
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
                product = add("product", y_shape, bf16, ir::Role::activation),
                y = add("y", y_shape, bf16, ir::Role::activation);
  graph.functions.push_back({"f", {{"only", 0, false, false, {}}}});
  ir::Region& region = graph.functions[0].regions[0];
  ops::RegionBuilder build(graph, region);
  build.emit_node("gemm", {x, w}, {product},
                  {{"transpose_a", false}, {"transpose_b", true}, {"accumulate", false}});
  build.emit_node("dropout", {product, step, seed}, {y}, {{"p", 0.25}, {"site", int64_t{3}}});
  passes::Log log;
  passes::expand(graph, {}, log);
  passes::fuse_products(graph, kWhereverPossible, {y.value}, log);
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

// A product that nothing is fused to, in either layout, with rows and columns that no tile divides.
TEST(PlainProduct, IsTheProduct) {
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
    build.emit_node("gemm", {x, w}, {y},
                    {{"transpose_a", false}, {"transpose_b", transposed}, {"accumulate", false}});
    region.nodes[0] = passes::plain_product(graph, region.nodes[0]);
    ASSERT_EQ(ir::verify(graph), std::vector<std::string>{});
    Interpreter state(graph);
    for (const ir::Use use : {x, w}) write_numbers(graph, state, use);
    EXPECT_EQ(differences(graph, state, region.nodes[0], 0), std::vector<std::string>{});
    const std::vector<double> product = state.read(y);
    EXPECT_GT(std::ranges::count_if(product, [](double number) { return number != 0; }), 0);
  }
}

// Behind the real product, at the sizes that are trained. What is taken by itself spills nothing.
TEST(FusedProduct, CompilesAndWhereItPaysSpillsNothing) {
  try {
    device_code::nvrtc_version();
  } catch (const runtime::InputError& error) {
    GTEST_SKIP() << "SKIPPED: " << error.what();
  }
  struct Options {
    const char* spec;
    std::vector<std::string> overrides;
    passes::RecomputeChoice recompute = {};
  };
  const targets::Target& gpu = *targets::find("sm_90");
  int paying = 0;
  for (const Options& options :
       {Options{"gpt2-124m", {}}, Options{"gpt2-124m", {}, {.act = true}}, Options{"llama-1b", {}},
        Options{"llama-1b", {}, {.norm = true, .act = true}},
        Options{"shakespeare-char", {"model.vocab_size=100"}},
        Options{"shakespeare-char", {"model.vocab_size=100", "optimizations.residual=compute"}},
        Options{"shakespeare-char",
                {"model.vocab_size=100", "optimizations.residual=compute", "model.dropout=0",
                 "model.norm=rmsnorm"}}}) {
    const auto lowered = [&](const passes::FusedProducts& products) {
      return GpuModel(shipped_spec(options.spec, options.overrides), ir::DType::bf16, options.recompute,
                      products);
    };
    const GpuModel model = lowered(kWhereverPossible), by_itself = lowered({.capability = 90});
    std::set<std::string> taken;  // texts
    for (const auto& [node, layer] : fused_products(by_itself.graph))
      taken.insert(codegen::cuda_body_kernels(by_itself.graph, *node, gpu).kernels[0].text);
    std::vector<std::pair<std::string, codegen::CudaKernels>> all;
    std::set<std::string> pays;
    for (const auto& [node, layer] : fused_products(model.graph)) {
      const std::string name = "product_" + std::to_string(all.size());
      all.emplace_back(name, codegen::cuda_body_kernels(model.graph, *node, gpu));
      if (taken.contains(all.back().second.kernels[0].text)) pays.insert(kernel_name(name, 0));
    }
    ASSERT_FALSE(all.empty()) << options.spec;
    const std::vector<device_code::KernelResources> kernels =
        resources_of(cuda_source_of(model.graph, all), gpu.capability);
    std::cout << options.spec << "\n" << to_table(kernels);
    for (const device_code::KernelResources& kernel : kernels) {
      if (!pays.contains(kernel.kernel)) continue;
      ++paying;
      EXPECT_EQ(kernel.spill_store_bytes, 0) << kernel.kernel;
      EXPECT_EQ(kernel.spill_load_bytes, 0) << kernel.kernel;
    }
  }
  EXPECT_GT(paying, 0);
}

TEST(SmallProduct, CompilesAndSpillsNothing) {
  try {
    device_code::nvrtc_version();
  } catch (const runtime::InputError& error) {
    GTEST_SKIP() << "SKIPPED: " << error.what();
  }
  const targets::Target& gpu = *targets::find("sm_90");
  for (const passes::RecomputeChoice& recompute :
       {passes::RecomputeChoice{}, passes::RecomputeChoice{.act = true}}) {
    const GpuModel model(small_spec(kTiny, kTinyTrain), ir::DType::bf16, recompute,
                         passes::FusedProducts{.capability = 90});
    std::vector<std::pair<std::string, codegen::CudaKernels>> all;
    for (const auto& [node, layer] : fused_products(model.graph))
      all.emplace_back("product_" + std::to_string(all.size()),
                       codegen::cuda_body_kernels(model.graph, *node, gpu));
    ASSERT_FALSE(all.empty());
    const std::vector<device_code::KernelResources> kernels =
        resources_of(cuda_source_of(model.graph, all), gpu.capability);
    std::cout << to_table(kernels);
    for (const device_code::KernelResources& kernel : kernels) {
      EXPECT_EQ(kernel.spill_store_bytes, 0) << kernel.kernel;
      EXPECT_EQ(kernel.spill_load_bytes, 0) << kernel.kernel;
    }
  }
}

}  // namespace
}  // namespace hydrac::test
