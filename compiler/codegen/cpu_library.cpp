#include "codegen/cpu_library.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "codegen/attention_text.h"
#include "codegen/cpu_cache.h"
#include "codegen/dimensions.h"
#include "codegen/parameter_list.h"
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
class CpuAttentionText {
 public:
  CpuAttentionText(const ir::Graph& graph, const ir::Node& node, int first_input)
      : graph_(graph), node_(node), dimensions_(graph), q_(first_input) {
    const ir::Shape& q = shape_of(node.inputs[q_]);
    const ir::Shape& k = shape_of(node.inputs[q_ + 1]);
    shape_ = {q[0].size, q[1].size, q[2].size, k[2].size, static_cast<float>(node.number("scale"))};
    head_dim_ = q[3].size;
    dropout_ = node.number("dropout");
    rules_ = ops::attention_rules(node);
  }

  // `tensors`: names of the inputs and outputs. `arguments`: what the template takes between shape and
  // dropout.
  KernelSource kernel(const std::string& name, int threads, const std::vector<std::string>& tensors,
                      const std::string& arguments) const {
    KernelSource source;
    source.name = name;
    source.header = "cpu/attention.h";
    source.workspace_bytes = workspace(threads, name == "attention_backward");
    source.takes_layer = drops() || rules_.varies_by_layer();
    ParameterList list;
    const size_t inputs = static_cast<size_t>(q_) + 3;  // rng_step, rng_seed and documents follow
    for (size_t i = 0; i < inputs + node_.outputs.size(); ++i) {
      const bool is_input = i < inputs;
      const ir::Use use = is_input ? node_.inputs[i] : node_.outputs[i - inputs];
      list.add(fmt::format("{}float* {}", is_input ? "const " : "", tensors[i]), shape_of(use));
      source.arguments.push_back(use);
    }
    source.parameters = tensors;
    if (rules_.documents) {
      list.add("const std::int32_t* documents", shape_of(node_.inputs[inputs + 2]));
      source.arguments.push_back(node_.inputs[inputs + 2]);
      source.parameters.push_back("documents");
    }
    if (drops()) {
      for (size_t i = inputs; i < inputs + 2; ++i) {
        list.add(fmt::format("const std::uint32_t* {}", i == inputs ? "rng_step" : "rng_seed"));
        source.arguments.push_back(node_.inputs[i]);
      }
    }
    list.add("void* workspace");
    if (source.takes_layer) list.add("int layer");
    source.text = fmt::format(
        "static void {0}{1}"
        "{2}{3}"
        "  constexpr int kThreads = {4};  // that the workspace is for\n"
        "  static_assert(cpu::{5}_workspace<{6}>({12}, kThreads) <= {7});\n"
        "  cpu::{5}<{6}, {8}, {9}, {10}>(shape, {11}, dropout,\n"
        "      {{workspace, kThreads}});\n}}\n",
        kNamePlaceholder, list.text(), shape(), dropout(), threads, name, head_dim_text(),
        source.workspace_bytes, mask_type(rules_), scores_type(rules_), drops(), arguments,
        constant_shape(rules_));
    return source;
  }

  // {pointer, batch stride, token stride, head stride}
  std::string heads(const std::string& pointer, ir::Use use) const {
    return heads_text(dimensions_, graph_, use, pointer, shape_of(node_.inputs[q_])[3]);
  }

 private:
  const ir::Shape& shape_of(ir::Use use) const { return graph_.value(use).shape; }
  bool drops() const { return dropout_ > 0; }
  std::string head_dim_text() const { return dimensions_.of(shape_of(node_.inputs[q_])[3]).text; }

  std::string shape() const {
    const ir::Shape& q = shape_of(node_.inputs[q_]);
    const auto size = [&](const ir::Dim& dim) { return dimensions_.of(dim).text; };
    const std::string members = fmt::format("{}, {}, {}, {}, {}f", size(q[0]), size(q[1]), size(q[2]),
                                            size(shape_of(node_.inputs[q_ + 1])[2]), shape_.scale);
    return shape_definition(rules_, "cpu::AttentionShape", members, size(q[1]), "", "documents",
                            "cpu::PackedShape");
  }

  std::string dropout() const {
    if (!drops()) return "  constexpr cpu::AttentionDropout dropout{0, 0, 1.0f};\n";
    return fmt::format(
        "  const cpu::AttentionDropout dropout{{random_key(*rng_seed, *rng_step, {}u + layer), {}u, {}f}};\n",
        node_.integer("site") * ops::kSiteStride, ops::dropout_threshold(dropout_),
        static_cast<float>(1 / (1 - dropout_)));
  }

  int64_t workspace(int threads, bool backward) const {
    const int64_t bytes = attention_workspace(head_dim_, shape_, threads, backward,
                                              std::make_integer_sequence<int, kHeadDims>{});
    if (bytes < 0) throw std::logic_error("head_dim was not checked");
    return bytes;
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const Dimensions dimensions_;
  int q_;
  cpu::AttentionShape shape_{};
  int64_t head_dim_ = 0;
  double dropout_ = 0;
  ops::AttentionRules rules_;
};

KernelSource attention_forward(const ir::Graph& graph, const ir::Node& node, int threads) {
  const CpuAttentionText text(graph, node, 0);
  const std::string arguments = fmt::format("{}, {}, {},\n      {}, lse", text.heads("q", node.inputs[0]),
                                            text.heads("k", node.inputs[1]), text.heads("v", node.inputs[2]),
                                            text.heads("out", node.outputs[0]));
  KernelSource source = text.kernel("attention_forward", threads, {"q", "k", "v", "out", "lse"}, arguments);
  source.comment = fmt::format("out = {} v; lse keeps the softmax's denominators for the backward pass",
                               softmax_formula(ops::attention_rules(node)));
  return source;
}

// Inputs: d_out, out, lse, then the forward's.
KernelSource attention_backward(const ir::Graph& graph, const ir::Node& node, int threads) {
  const CpuAttentionText text(graph, node, 3);
  const std::string arguments = fmt::format(
      "{}, {}, {},\n      {}, lse, {},\n      {}, {}, {}", text.heads("q", node.inputs[3]),
      text.heads("k", node.inputs[4]), text.heads("v", node.inputs[5]), text.heads("out", node.inputs[1]),
      text.heads("d_out", node.inputs[0]), text.heads("d_q", node.outputs[0]),
      text.heads("d_k", node.outputs[1]), text.heads("d_v", node.outputs[2]));
  KernelSource source = text.kernel("attention_backward", threads,
                                    {"d_out", "out", "lse", "q", "k", "v", "d_q", "d_k", "d_v"}, arguments);
  source.comment = "d_q, d_k, d_v from d_out, and the probabilities again from q, k and lse";
  return source;
}

KernelSource embedding_backward(const ir::Graph& graph, const ir::Node& node) {
  const Dimensions dimensions(graph);
  const ir::Shape& ids = graph.value(node.inputs[0]).shape;
  const ir::Shape& table = graph.value(node.outputs[0]).shape;
  KernelSource source;
  source.name = "embedding_backward";
  source.header = "cpu/embedding.h";
  source.comment = "d_table[id] += d_y, rows in order";
  source.arguments = {node.inputs[0], node.inputs[1], node.outputs[0]};
  source.parameters = {"ids", "d_y", "d_table"};
  ParameterList list;
  list.add("const std::int32_t* ids", ids);
  list.add("const float* d_y", graph.value(node.inputs[1]).shape);
  list.add("float* d_table", table);
  const std::string zero = node.flag("accumulate") ? ""
                                                   : fmt::format("  cpu::zero_gradient(d_table, {});\n",
                                                                 dimensions.of(table).text);
  source.text =
      fmt::format("static void {}{}{}  cpu::embedding_backward(ids, d_y, d_table, {}, {});\n}}\n",
                  kNamePlaceholder, list.text(), zero, dimensions.of(ids).text, dimensions.of(table[1]).text);
  return source;
}

}  // namespace

bool cpu_attention_supports(int64_t head_dim) {
  return head_dim % kHeadDimStep == 0 && head_dim <= kHeadDimStep * kHeadDims;
}

KernelSource cpu_library_kernel(const ir::Graph& graph, const ir::Node& node, int threads) {
  if (node.op == ir::Op::attention) return attention_forward(graph, node, threads);
  if (node.op == ir::Op::attention_backward) return attention_backward(graph, node, threads);
  if (node.op == ir::Op::embedding_backward) return embedding_backward(graph, node);
  if (node.op == ir::Op::cache_append) return cpu_cache_append(graph, node);
  if (node.op == ir::Op::attention_decode) return cpu_attention_decode(graph, node, threads);
  throw std::logic_error("no cpu kernel for " + to_string(node.op));
}

}  // namespace hydrac::codegen
