#include "codegen/cpu_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <utility>

#include "codegen/operand_names.h"
#include "cpu/attention.h"
#include "ops/dropout.h"

namespace hydrac::codegen {

namespace {

constexpr int kHeadDimStep = 8, kHeadDims = 32;

// Workspace of every head width the templates take: they are template arguments there.
template <int... i>
int64_t attention_workspace(int64_t head_dim, const cpu::AttentionShape& shape, int threads, bool backward,
                            std::integer_sequence<int, i...>) {
  int64_t bytes = -1;
  auto take = [&]<int dim>(std::integral_constant<int, dim>) {
    if (dim != head_dim) return;
    bytes = static_cast<int64_t>(backward ? cpu::attention_backward_workspace<dim>(shape, threads)
                                          : cpu::attention_forward_workspace<dim>(shape, threads));
  };
  (take(std::integral_constant<int, (i + 1) * kHeadDimStep>{}), ...);
  return bytes;
}

// What both attention kernels say about one node.
class AttentionText {
 public:
  AttentionText(const ir::Graph& graph, const ir::Node& node, int first_input)
      : graph_(graph), node_(node), q_(first_input) {
    const ir::Shape& q = graph.value(node.inputs[q_]).shape;
    const ir::Shape& k = graph.value(node.inputs[q_ + 1]).shape;
    shape_ = {q[0].size, q[1].size, q[2].size, k[2].size, static_cast<float>(node.number("scale"))};
    head_dim_ = q[3].size;
    dropout_ = node.number("dropout");
  }

  std::string arguments() const {
    return fmt::format("{}, {}, {}", head_dim_, node_.flag("causal"), dropout_ > 0);
  }
  std::string shape() const {
    return fmt::format("constexpr hydrac::cpu::AttentionShape shape{{{}, {}, {}, {}, {}f}};", shape_.batch,
                       shape_.tokens, shape_.heads, shape_.kv_heads, shape_.scale);
  }
  std::string dropout() const {
    if (dropout_ == 0) return "constexpr hydrac::cpu::AttentionDropout dropout{0, 0, 1.0f};";
    return fmt::format(
        "const hydrac::cpu::AttentionDropout dropout{{hydrac::random_key(*rng_seed, *rng_step, {}u + layer), "
        "{}u, {}f}};",
        node_.integer("site") * ops::kSiteStride, ops::dropout_threshold(dropout_),
        static_cast<float>(1 / (1 - dropout_)));
  }
  // {pointer, batch stride, token stride, head stride}
  std::string heads(const std::string& pointer, ir::Use use) const {
    const ir::View view = resolved_view(graph_, use.value);
    const int64_t head_stride =
        view.strides.size() == 4 ? view.strides[2] : head_dim_;  // [B,T,H,D] or [B,T,HD]
    return fmt::format("{{{}, {}, {}, {}}}", pointer, view.strides[0], view.strides[1], head_stride);
  }
  int64_t workspace(int threads, bool backward) const {
    const int64_t bytes = attention_workspace(head_dim_, shape_, threads, backward,
                                              std::make_integer_sequence<int, kHeadDims>{});
    if (bytes < 0) throw std::logic_error("head_dim was not checked");
    return bytes;
  }

 private:
  const ir::Graph& graph_;
  const ir::Node& node_;
  int q_;
  cpu::AttentionShape shape_{};
  int64_t head_dim_ = 0;
  double dropout_ = 0;
};

KernelSource attention_forward(const ir::Graph& graph, const ir::Node& node, int threads) {
  const AttentionText text(graph, node, 0);
  KernelSource source;
  source.name = "attention_forward";
  source.comment =
      "out = softmax(scale q k^T, causal) v; lse keeps the softmax's denominators for the backward pass";
  source.arguments = node.inputs;
  source.arguments.insert(source.arguments.end(), node.outputs.begin(), node.outputs.end());
  source.workspace_bytes = text.workspace(threads, false);
  source.text = fmt::format(
      "static void {}(const float* q, const float* k, const float* v, [[maybe_unused]] const std::uint32_t* "
      "rng_step,\n"
      "                [[maybe_unused]] const std::uint32_t* rng_seed, float* out, float* lse, void* "
      "workspace,\n"
      "                [[maybe_unused]] int layer) {{\n"
      "  {}\n  {}\n"
      "  static_assert(hydrac::cpu::attention_forward_workspace<{}>(shape, {}) <= {});\n"
      "  hydrac::cpu::attention_forward<{}>(shape, {}, {}, {}, {}, lse, dropout, {{workspace, {}}});\n}}\n",
      kNamePlaceholder, text.shape(), text.dropout(), graph.value(node.inputs[0]).shape[3].size, threads,
      source.workspace_bytes, text.arguments(), text.heads("q", node.inputs[0]),
      text.heads("k", node.inputs[1]), text.heads("v", node.inputs[2]), text.heads("out", node.outputs[0]),
      threads);
  return source;
}

// Inputs: d_out, out, lse, then the forward's.
KernelSource attention_backward(const ir::Graph& graph, const ir::Node& node, int threads) {
  const AttentionText text(graph, node, 3);
  KernelSource source;
  source.name = "attention_backward";
  source.comment = "d_q, d_k, d_v from d_out, and the probabilities again from q, k and lse";
  source.arguments = node.inputs;
  source.arguments.insert(source.arguments.end(), node.outputs.begin(), node.outputs.end());
  source.workspace_bytes = text.workspace(threads, true);
  source.text = fmt::format(
      "static void {}(const float* d_out, const float* out, const float* lse, const float* q, const float* "
      "k,\n"
      "                const float* v, [[maybe_unused]] const std::uint32_t* rng_step,\n"
      "                [[maybe_unused]] const std::uint32_t* rng_seed, float* d_q, float* d_k, float* d_v,\n"
      "                void* workspace, [[maybe_unused]] int layer) {{\n"
      "  {}\n  {}\n"
      "  static_assert(hydrac::cpu::attention_backward_workspace<{}>(shape, {}) <= {});\n"
      "  hydrac::cpu::attention_backward<{}>(shape, {}, {}, {}, {}, lse, {}, {}, {}, {}, dropout, "
      "{{workspace, {}}});\n}}\n",
      kNamePlaceholder, text.shape(), text.dropout(), graph.value(node.inputs[3]).shape[3].size, threads,
      source.workspace_bytes, text.arguments(), text.heads("q", node.inputs[3]),
      text.heads("k", node.inputs[4]), text.heads("v", node.inputs[5]), text.heads("out", node.inputs[1]),
      text.heads("d_out", node.inputs[0]), text.heads("d_q", node.outputs[0]),
      text.heads("d_k", node.outputs[1]), text.heads("d_v", node.outputs[2]), threads);
  return source;
}

KernelSource embedding_backward(const ir::Graph& graph, const ir::Node& node) {
  const int64_t rows = element_count(graph.value(node.inputs[0]).shape);
  const ir::Shape& table = graph.value(node.outputs[0]).shape;
  KernelSource source;
  source.name = "embedding_backward";
  source.comment = "d_table[id] += d_y, rows in order";
  source.arguments = {node.inputs[0], node.inputs[1], node.outputs[0]};
  const std::string zero =
      node.flag("accumulate") ? "" : fmt::format("  std::fill_n(d_table, {}, 0.0f);\n", element_count(table));
  source.text = fmt::format(
      "static void {}(const std::int32_t* ids, const float* d_y, float* d_table, [[maybe_unused]] int layer) "
      "{{\n"
      "{}  hydrac::cpu::embedding_backward(ids, d_y, d_table, {}, {});\n}}\n",
      kNamePlaceholder, zero, rows, table[1].size);
  return source;
}

}  // namespace

bool cpu_attention_supports(int64_t head_dim) {
  return head_dim % kHeadDimStep == 0 && head_dim <= kHeadDimStep * kHeadDims;
}

KernelSource cpu_library_kernel(const ir::Graph& graph, const ir::Node& node, int threads) {
  if (node.op == "attention") return attention_forward(graph, node, threads);
  if (node.op == "attention_backward") return attention_backward(graph, node, threads);
  if (node.op == "embedding_backward") return embedding_backward(graph, node);
  throw std::logic_error("no cpu kernel for " + node.op);
}

}  // namespace hydrac::codegen
