#include "codegen/cuda_library.h"

#include <fmt/format.h>

#include <stdexcept>

#include "codegen/build_calls.h"
#include "codegen/expression_text.h"
#include "cuda/attention/geometry.h"
#include "cuda/embedding_geometry.h"
#include "ops/dropout.h"

namespace hydrac::codegen {

namespace {

using cuda::AttentionKernel;
using program::AttentionCall;

// What the attention kernels of one node have in common.
class AttentionText {
 public:
  AttentionText(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu)
      : node_(node), call_(attention_call(graph, node)) {
    const AttentionCall& a = call_.attention;
    problem_ = {gpu.capability,
                static_cast<int>(ir::size_of(a.dtype)),
                a.dtype == ir::DType::bf16,
                a.batch,
                a.tokens,
                a.heads,
                a.kv_heads,
                a.head_dim};
    if (!attention_supports(problem_))
      throw std::logic_error(fmt::format("head_dim {} was not checked", a.head_dim));
  }

  const AttentionCall& call() const { return call_.attention; }
  int64_t backward_workspace() const { return static_cast<int64_t>(attention_backward_workspace(problem_)); }

  // One kernel: `parameters` are its pointers, `arguments` what the template takes, both beside the
  // dropout's.
  CudaKernel kernel(AttentionKernel which, const std::string& function, const std::string& parameters,
                    const std::string& arguments) const {
    const cuda::AttentionLaunch launch = attention_launch(problem_, which);
    CudaKernel kernel;
    kernel.name = function;
    kernel.launch = {launch.grid, launch.threads, static_cast<int64_t>(launch.shared_bytes)};
    kernel.takes_layer = drops();
    kernel.takes_workspace = which != AttentionKernel::forward;
    kernel.header = "cuda/attention/attention.cuh";
    kernel.text = fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}, {}) {}({}{}{}{}) {{\n"
        "{}  hydrac::cuda::{}<Config>(shape, {}, dropout);\n}}\n",
        launch.threads, launch.blocks_per_sm, kNamePlaceholder, parameters,
        drops() ? ", const std::uint32_t* rng_step, const std::uint32_t* rng_seed" : "",
        kernel.takes_workspace ? ", hydrac::cuda::QueryTerms* terms" : "", drops() ? ", int layer" : "",
        setup(which), function, arguments);
    return kernel;
  }

  // {pointer, batch stride, token stride, head stride}
  static std::string heads(const std::string& pointer, const AttentionCall::Strides& s) {
    return fmt::format("{{{}, {}, {}, {}}}", pointer, s.batch, s.token, s.head);
  }
  std::string type() const { return std::string(c_type(call_.attention.dtype, kCudaDialect)); }
  bool drops() const { return call_.attention.dropout > 0; }

  // rng_step and rng_seed, the node's last inputs, where the kernel takes them.
  void append_random(std::vector<ir::Use>& arguments) const {
    if (drops()) arguments.insert(arguments.end(), node_.inputs.end() - 2, node_.inputs.end());
  }

 private:
  std::string setup(AttentionKernel which) const {
    const AttentionCall& a = call_.attention;
    const char* kernel = which == AttentionKernel::forward           ? "forward"
                         : which == AttentionKernel::query_gradients ? "query_gradients"
                                                                     : "key_gradients";
    std::string text = fmt::format(
        "  constexpr hydrac::cuda::AttentionProblem problem{{{}, {}, {}, {}, {}, {}, {}, {}}};\n"
        "  using Config = hydrac::cuda::AttentionConfig<{}, {}, attention_family(problem),\n"
        "      attention_tile(problem, hydrac::cuda::AttentionKernel::{}), {}, {}>;\n"
        "  constexpr hydrac::cuda::AttentionShape shape{{{}, {}, {}, {}, {}f}};\n",
        problem_.capability, problem_.element_bytes, problem_.is_bf16, a.batch, a.tokens, a.heads, a.kv_heads,
        a.head_dim, type(), a.head_dim, kernel, a.causal, drops(), a.batch, a.tokens, a.heads, a.kv_heads,
        static_cast<float>(a.scale));
    if (!drops()) return text + "  constexpr hydrac::cuda::AttentionDropout dropout{0, 0, 1.0f};\n";
    return text + fmt::format(
                      "  const hydrac::cuda::AttentionDropout dropout{{hydrac::random_key(*rng_seed, "
                      "*rng_step, {}u + "
                      "layer), {}u, {}f}};\n",
                      node_.integer("site") * ops::kSiteStride, ops::dropout_threshold(a.dropout),
                      static_cast<float>(1 / (1 - a.dropout)));
  }

  const ir::Node& node_;
  program::Call call_;
  cuda::AttentionProblem problem_{};
};

CudaKernels attention_forward(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const AttentionText text(graph, node, gpu);
  const AttentionCall& a = text.call();
  CudaKernel kernel =
      text.kernel(AttentionKernel::forward, "attention_forward",
                  fmt::format("const {0}* q, const {0}* k, const {0}* v, {0}* out, float* lse", text.type()),
                  fmt::format("{}, {}, {}, {}, lse", text.heads("q", a.q), text.heads("k", a.k),
                              text.heads("v", a.v), text.heads("out", a.out)));
  kernel.comment = "out = softmax(scale q k^T, causal) v; lse is kept for the backward pass";
  kernel.arguments = {node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[0], node.outputs[1]};
  text.append_random(kernel.arguments);
  return {{std::move(kernel)}, 0};
}

// Inputs: d_out, out, lse, then the forward's. Outputs: d_q, d_k, d_v.
CudaKernels attention_backward(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const AttentionText text(graph, node, gpu);
  const AttentionCall& a = text.call();
  const ir::Use d_out = node.inputs[0], out = node.inputs[1], lse = node.inputs[2], q = node.inputs[3],
                k = node.inputs[4], v = node.inputs[5];
  CudaKernel queries = text.kernel(
      AttentionKernel::query_gradients, "attention_query_gradients",
      fmt::format(
          "const {0}* q, const {0}* k, const {0}* v, const {0}* out, const float* lse, const {0}* d_out, "
          "{0}* d_q",
          text.type()),
      fmt::format("{}, {}, {}, {}, lse, {}, {}, terms", text.heads("q", a.q), text.heads("k", a.k),
                  text.heads("v", a.v), text.heads("out", a.out), text.heads("d_out", a.d_out),
                  text.heads("d_q", a.d_q)));
  queries.comment = "d_q, and for each query its lse and d_out . out";
  queries.arguments = {q, k, v, out, lse, d_out, node.outputs[0]};
  CudaKernel keys = text.kernel(
      AttentionKernel::key_gradients, "attention_key_gradients",
      fmt::format("const {0}* q, const {0}* k, const {0}* v, const {0}* d_out, {0}* d_k, {0}* d_v",
                  text.type()),
      fmt::format("{}, {}, {}, {}, terms, {}, {}", text.heads("q", a.q), text.heads("k", a.k),
                  text.heads("v", a.v), text.heads("d_out", a.d_out), text.heads("d_k", a.d_k),
                  text.heads("d_v", a.d_v)));
  keys.comment = "d_k and d_v, the probabilities again from q, k and lse";
  keys.arguments = {q, k, v, d_out, node.outputs[1], node.outputs[2]};
  text.append_random(queries.arguments);
  text.append_random(keys.arguments);
  return {{std::move(queries), std::move(keys)}, text.backward_workspace()};
}

// Inputs: ids, d_y, order of the tokens.
CudaKernels embedding_backward(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value &d_y = graph.value(node.inputs[1]), &table = graph.value(node.outputs[0]);
  const cuda::EmbeddingGradient g{static_cast<int>(element_count(graph.value(node.inputs[0]).shape)),
                                  static_cast<int>(table.shape[1].size),
                                  static_cast<int>(table.shape[0].size),
                                  static_cast<int>(ir::size_of(d_y.dtype)),
                                  static_cast<int>(ir::size_of(table.dtype)),
                                  node.flag("accumulate")};
  const std::string constants =
      fmt::format("hydrac::cuda::EmbeddingGradient{{{}, {}, {}, {}, {}, {}}}", g.tokens, g.width,
                  g.vocabulary, g.d_y_bytes, g.table_bytes, g.accumulate);
  const auto y_type = c_type(d_y.dtype, kCudaDialect), table_type = c_type(table.dtype, kCudaDialect);
  auto head = [](const cuda::EmbeddingLaunch& launch) {
    return fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) {}", launch.threads,
                       launch.blocks_per_sm, kNamePlaceholder);
  };
  const cuda::EmbeddingLaunch runs = embedding_runs_launch(g), borders = embedding_borders_launch(g);
  CudaKernel first, second;
  first.name = "embedding_gradient_runs";
  first.comment = "d_table[id] += d_y, tokens sorted by id in chunks: what lies within a chunk";
  first.text = fmt::format(
      "{}(const std::int32_t* ids, const std::int32_t* order, const {}* d_y, {}* d_table, float* workspace) "
      "{{\n"
      "  hydrac::cuda::embedding_gradient_runs<{}, {}, {}>(ids, order, d_y, d_table, workspace);\n}}\n",
      head(runs), y_type, table_type, y_type, table_type, constants);
  first.arguments = {node.inputs[0], node.inputs[2], node.inputs[1], node.outputs[0]};
  first.launch = {runs.grid, runs.threads, 0};
  second.name = "embedding_gradient_borders";
  second.comment = "d_table[id] += d_y: what crosses the borders of chunks";
  second.text = fmt::format(
      "{}({}* d_table, float* workspace) {{\n"
      "  hydrac::cuda::embedding_gradient_borders<{}, {}>(workspace, d_table);\n}}\n",
      head(borders), table_type, table_type, constants);
  second.arguments = {node.outputs[0]};
  second.launch = {borders.grid, borders.threads, 0};
  first.takes_workspace = second.takes_workspace = true;
  first.header = second.header = "cuda/embedding_backward.cuh";
  return {{std::move(first), std::move(second)}, static_cast<int64_t>(embedding_workspace_bytes(g))};
}

}  // namespace

CudaKernels cuda_library_kernels(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  if (node.op == "attention") return attention_forward(graph, node, gpu);
  if (node.op == "attention_backward") return attention_backward(graph, node, gpu);
  if (node.op == "embedding_backward") return embedding_backward(graph, node);
  throw std::logic_error("no cuda kernel for " + node.op);
}

}  // namespace hydrac::codegen
