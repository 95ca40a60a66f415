// Kernels of mixtures of experts as they are generated: that they take the right tensors and compute what
// their nodes say, that a matmul's reader becomes its epilogue, and that all variants compile without
// spilling.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <set>

#include "codegen/cuda/body.h"
#include "codegen/cuda/library.h"
#include "emulated_body.h"
#include "gpu_model.h"
#include "ops/builder.h"
#include "resources.h"

namespace hydrac::test {
namespace {

using ir::DType;

// One region of one function, and its values by name.
struct ExpertGraph {
  // `tokens` that choose two of `experts` each. Wide [rows,K] and inner [rows,2F] rows; the matrices of all
  // experts, [E*2F,K].
  ExpertGraph(DType type, int64_t tokens, int64_t experts, int64_t width, int64_t inner) {
    graph.functions.push_back({"f", {{"only", 0, false, false, {}}}});
    const int64_t rows = (2 * tokens + experts * 127 + 127) / 128 * 128;
    chosen = add("chosen", {{tokens, "T"}, {2, ""}}, DType::i32, ir::Role::input);
    x = add("x", {{rows, ""}, {width, "C"}}, type, ir::Role::input);
    h = add("h", {{rows, ""}, {2 * inner, "2F"}}, type, ir::Role::state);
    weights = add("weights", {{experts * 2 * inner, ""}, {width, "C"}}, type, ir::Role::parameter);
    d_x = add("d_x", {{rows, ""}, {width, "C"}}, type, ir::Role::state);
    d_w = add("d_w", {{experts * 2 * inner, ""}, {width, "C"}}, DType::f32, ir::Role::gradient);
    ops::RegionBuilder b = build();
    sorted = ops::expert_rows(b, chosen, experts, 128);
    offsets = sorted.offsets;
  }

  ir::Use add(const std::string& name, const ir::Shape& shape, DType dtype, ir::Role role) {
    ir::Value value;
    value.name = name, value.dtype = dtype, value.shape = shape, value.role = role;
    return {graph.add(std::move(value)), {}};
  }
  std::vector<ir::Node>& nodes() { return graph.functions[0].regions[0].nodes; }
  ops::RegionBuilder build() { return {graph, graph.functions[0].regions[0]}; }

  // The nodes of a layer but those between the matmuls.
  void add_matmuls(bool accumulate) {
    ops::RegionBuilder b = build();
    b.emit_node(ir::Op::grouped_matmul, {x, weights, offsets}, {h}, {{"transpose_b", true}});
    b.emit_node(ir::Op::grouped_matmul, {h, weights, offsets}, {d_x}, {{"transpose_b", false}});
    b.emit_node(ir::Op::grouped_weight_gradient, {h, x, offsets}, {d_w}, {{"accumulate", accumulate}});
  }

  // Small integers, so that results of 16 bits are exact too. All tokens choose the first two experts but
  // every fifth, which chooses the last.
  void fill(Interpreter& state) const {
    const auto write = [&](ir::Use use, const std::function<double(int64_t)>& number) {
      std::vector<double> numbers;
      for (int64_t i = 0; i < element_count(graph.value(use).shape); ++i) numbers.push_back(number(i));
      state.write(use, numbers);
    };
    const auto last = static_cast<double>(graph.value(offsets).shape[0].size - 2);
    write(chosen, [&](int64_t i) { return i % 2 == 0 ? 0 : i % 5 == 0 ? last : 1; });
    const auto few = [](int64_t i) { return i * 7 % 31 < 3 ? static_cast<double>(i % 3 - 1) : 0.0; };
    write(x, few);
    write(weights, [&](int64_t i) { return few(i + 5); });
    write(d_w, [](int64_t i) { return static_cast<double>(i % 4); });
    // Rows behind the last expert's, which kernels leave as they are and the interpreter goes through.
    if (unread.value != ir::kNoValue) write(unread, [](int64_t) { return 0.0; });
    for (const ir::Use made : {sorted.source, sorted.place, sorted.offsets})
      write(made, [](int64_t) { return 0.0; });
  }

  ir::Graph graph;
  ir::Use chosen, x, h, weights, d_x, d_w, offsets, unread;
  ops::ExpertRows sorted;
};

codegen::CudaKernels kernels_of(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  return node.body ? codegen::cuda_body_kernels(graph, node, gpu)
                   : codegen::cuda_library_kernels(graph, node, gpu);
}

// Each node's kernels after those before it, beside the interpreter.
void expect_right(ExpertGraph& given, const targets::Target& gpu, std::set<std::string>& names) {
  ASSERT_EQ(ir::verify(given.graph), std::vector<std::string>{});
  Interpreter state(given.graph);
  given.fill(state);
  int number = 0;
  for (const ir::Node& node : given.nodes()) {
    const codegen::CudaKernels kernels = kernels_of(given.graph, node, gpu);
    const std::string name = fmt::format("node_{}", number++);
    std::vector<std::string> own;
    for (size_t k = 0; k < kernels.kernels.size(); ++k) {
      names.insert(fmt::format("{}: {}", kernels.kernels[k].name, kernels.kernels[k].header));
      own.push_back(kernel_name(name, k));
    }
    emulation::EmulatedKernels compiled(cuda_source_of(given.graph, {{name, kernels}}, gpu), own);
    BodyMemory memory(given.graph, state, kernels, 0);
    memory.run(compiled, name);
    state.run(node, 0);
    EXPECT_EQ(memory.compare(state, 0x1p-8, 1e-5), std::vector<std::string>{}) << to_string(node.op);
  }
}

TEST(ExpertKernels, ComputeWhatTheirNodesSay) {
  for (const auto& [gpu, type, matmul, gradient] :
       {std::tuple{"sm_90", DType::bf16, "plain_matmul: cuda/matmul/matmul.cuh",
                   "expert_gradients: cuda/matmul/expert_gradients.cuh"},
        {"sm_80", DType::bf16, "expert_matmul: cuda/matmul/plain_experts.cuh",
         "expert_gradients: cuda/matmul/plain_experts.cuh"},
        {"sm_90", DType::f32, "expert_matmul: cuda/matmul/plain_experts.cuh",
         "expert_gradients: cuda/matmul/plain_experts.cuh"}}) {
    SCOPED_TRACE(fmt::format("{} {}", gpu, to_string(type)));
    ExpertGraph given(type, 150, 4, 72, 24);
    given.add_matmuls(type == DType::f32);
    std::set<std::string> names;
    expect_right(given, *targets::find(gpu), names);
    EXPECT_EQ(names, (std::set<std::string>{"count_experts: cuda/expert_rows.cuh",
                                            "expert_rows: cuda/expert_rows.cuh", matmul, gradient}));
  }
}

// h = x W^T and the gate behind it.
TEST(ExpertKernels, AReaderOfAMatmulIsItsEpilogue) {
  for (const bool asks_for_none : {false, true}) {
    ExpertGraph given(DType::bf16, 150, 4, 72, 24);
    ir::Graph& graph = given.graph;
    const ir::Use h = given.add("up", graph.value(given.h).shape, DType::bf16, ir::Role::activation),
                  y = given.add("y", {graph.value(h).shape[0], {24, "F"}}, DType::bf16, ir::Role::state);
    given.unread = h;
    ops::RegionBuilder b = given.build();
    b.emit_node(ir::Op::grouped_matmul, {given.x, given.weights, given.offsets}, {h},
                {{"transpose_b", true}});
    b.emit_node(ir::Op::gated, {h}, {y}, {{"kind", std::string("swiglu")}});
    passes::Log log;
    passes::expand(graph, {}, log);
    const std::vector<std::string> all = {"*"};
    passes::FusedMatmuls options{.chip = cuda::kHopper};
    if (asks_for_none) options.library = all;
    passes::fuse_matmuls(graph, options, {y.value}, log);
    EXPECT_EQ(given.nodes().size(), asks_for_none ? 3u : 2u);
    EXPECT_EQ(given.nodes()[1].op, asks_for_none ? ir::Op::grouped_matmul : ir::Op::fused_matmul);
    if (asks_for_none) continue;
    std::set<std::string> names;
    expect_right(given, *targets::find("sm_90"), names);
  }
}

class ExpertResources : public CudaKernels {};

// All kernels on all GPUs, at sizes that are trained.
TEST_F(ExpertResources, CompileAndSpillNothing) {
  for (const char* name : {"sm_75", "sm_80", "sm_90", "sm_120"}) {
    const targets::Target& gpu = *targets::find(name);
    for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
      ExpertGraph given(type, 16384, 64, 1024, 512);
      given.add_matmuls(true);
      std::vector<std::pair<std::string, codegen::CudaKernels>> all;
      for (const ir::Node& node : given.nodes())
        all.emplace_back(fmt::format("node_{}", all.size()), kernels_of(given.graph, node, gpu));
      const auto kernels = resources_of(cuda_source_of(given.graph, all, gpu), gpu.capability);
      std::cout << name << " " << to_string(type) << "\n" << to_table(kernels);
      for (const device_code::KernelResources& kernel : kernels)
        expect_no_spills(kernel, std::string(name) + " ");
    }
  }
}

}  // namespace
}  // namespace hydrac::test
