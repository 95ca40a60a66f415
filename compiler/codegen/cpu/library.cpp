#include "codegen/cpu/library.h"

#include <stdexcept>
#include <utility>

#include "codegen/attention_text.h"
#include "codegen/cpu/cache.h"
#include "codegen/row_history.h"
#include "cpu/attention.h"

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

// The text that both attention kernels of a node share.
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

  // `tensors`: names of the inputs and outputs. `arguments`: the template's arguments between shape and
  // dropout.
  CpuKernel kernel(const std::string& name, int threads, const std::vector<std::string>& tensors,
                   const Code& arguments) const {
    CpuKernel kernel;
    kernel.name = name;
    kernel.header = "cpu/attention.h";
    kernel.workspace_bytes = workspace(threads, name == "attention_backward");
    kernel.takes_layer = drops() || rules_.varies_by_layer();
    const size_t inputs = static_cast<size_t>(q_) + 3;  // rng_step, rng_seed and documents follow
    for (size_t i = 0; i < inputs; ++i) kernel.read(graph_, tensors[i], node_.inputs[i]);
    for (size_t i = inputs; i < tensors.size(); ++i)
      kernel.write(graph_, tensors[i], node_.outputs[i - inputs]);
    if (rules_.documents) kernel.read(graph_, "documents", node_.inputs[inputs + 2]);
    if (drops()) {
      for (size_t i = inputs; i < inputs + 2; ++i) {
        kernel.text.take("const std::uint32_t*", i == inputs ? "rng_step" : "rng_seed");
        kernel.arguments.push_back(node_.inputs[i]);
      }
    }
    kernel.text.take("void*", "workspace");
    if (kernel.takes_layer) kernel.text.take("int", "layer");
    Block& body = kernel.text.body;
    define_shape(body);
    define_dropout(body, graph_, node_, "cpu::AttentionDropout", " ");
    body.line("constexpr int kThreads = {};", threads).comment = "that the workspace is for";
    body.line("static_assert(cpu::{}_workspace<{}>({}, kThreads) <= {});", name, head_dim(),
              constant_shape(rules_), kernel.workspace_bytes);
    body.line("cpu::{}<{}, {}, {}, {}>(shape, {}, dropout,\n      {{workspace, kThreads}});", name,
              head_dim(), mask_type(rules_), scores_type(rules_), drops(), arguments);
    return kernel;
  }

  // {pointer, batch stride, token stride, head stride}
  Code heads(const std::string& pointer, ir::Use use) const {
    return heads_code(dimensions_, graph_, use, pointer, shape_of(node_.inputs[q_])[3]);
  }

 private:
  const ir::Shape& shape_of(ir::Use use) const { return graph_.value(use).shape; }
  bool drops() const { return dropout_ > 0; }
  Size head_dim() const { return dimensions_.of(shape_of(node_.inputs[q_])[3]); }

  void define_shape(Block& body) const {
    const ir::Shape& q = shape_of(node_.inputs[q_]);
    const auto size = [&](const ir::Dim& dim) { return dimensions_.of(dim); };
    const Code members = code("{}, {}, {}, {}, {}", size(q[0]), size(q[1]), size(q[2]),
                              size(shape_of(node_.inputs[q_ + 1])[2]), shape_.scale);
    codegen::define_shape(body, rules_, {"cpu::AttentionShape", "cpu::PackedShape"}, members, size(q[1]),
                          size(q[3]), {}, "documents");
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

CpuKernel attention_forward(const ir::Graph& graph, const ir::Node& node, int threads) {
  const CpuAttentionText text(graph, node, 0);
  const Code arguments =
      code("{}, {}, {},\n      {}, lse", text.heads("q", node.inputs[0]), text.heads("k", node.inputs[1]),
           text.heads("v", node.inputs[2]), text.heads("out", node.outputs[0]));
  CpuKernel kernel = text.kernel("attention_forward", threads, {"q", "k", "v", "out", "lse"}, arguments);
  kernel.comment = fmt::format("out = {} v; lse keeps the softmax's denominators for the backward pass",
                               softmax_formula(ops::attention_rules(node)));
  return kernel;
}

// Inputs: d_out, out, lse, then the forward's.
CpuKernel attention_backward(const ir::Graph& graph, const ir::Node& node, int threads) {
  const CpuAttentionText text(graph, node, 3);
  const Code arguments = code("{}, {}, {},\n      {}, lse, {},\n      {}, {}, {}",
                              text.heads("q", node.inputs[3]), text.heads("k", node.inputs[4]),
                              text.heads("v", node.inputs[5]), text.heads("out", node.inputs[1]),
                              text.heads("d_out", node.inputs[0]), text.heads("d_q", node.outputs[0]),
                              text.heads("d_k", node.outputs[1]), text.heads("d_v", node.outputs[2]));
  CpuKernel kernel = text.kernel("attention_backward", threads,
                                 {"d_out", "out", "lse", "q", "k", "v", "d_q", "d_k", "d_v"}, arguments);
  kernel.comment = "d_q, d_k, d_v from d_out, and the probabilities again from q, k and lse";
  return kernel;
}

CpuKernel embedding_backward(const ir::Graph& graph, const ir::Node& node) {
  const Dimensions dimensions(graph);
  const ir::Shape& ids = graph.value(node.inputs[0]).shape;
  const ir::Shape& table = graph.value(node.outputs[0]).shape;
  CpuKernel kernel;
  kernel.name = "embedding_backward";
  kernel.header = "cpu/embedding.h";
  kernel.comment = "d_table[id] += d_y, rows in order";
  kernel.read(graph, "ids", node.inputs[0]);
  kernel.read(graph, "d_y", node.inputs[1]);
  kernel.write(graph, "d_table", node.outputs[0]);
  Block& body = kernel.text.body;
  if (!node.flag("accumulate")) body.line("cpu::zero_gradient(d_table, {});", dimensions.of(table));
  body.line("cpu::embedding_backward(ids, d_y, d_table, {}, {});", dimensions.of(ids),
            dimensions.of(table[1]));
  return kernel;
}

CpuKernel expert_rows(const ir::Graph& graph, const ir::Node& node) {
  const Dimensions dimensions(graph);
  CpuKernel kernel;
  kernel.name = "expert_rows";
  kernel.header = "cpu/expert_rows.h";
  kernel.comment = std::string(ops::op_info(node.op).formula);
  kernel.read(graph, "experts", node.inputs[0]);
  kernel.write(graph, "source", node.outputs[0]);
  kernel.write(graph, "place", node.outputs[1]);
  kernel.write(graph, "offsets", node.outputs[2]);
  kernel.text.body.line("cpu::expert_rows(experts, source, place, offsets, {{{}, {}, {}, {}}});",
                        dimensions.of(graph.value(node.inputs[0]).shape),
                        graph.value(node.outputs[2]).shape[0].size - 1,
                        dimensions.of(graph.value(node.outputs[0]).shape), node.integer("block"));
  return kernel;
}

}  // namespace

bool cpu_attention_supports(int64_t head_dim) {
  return head_dim % kHeadDimStep == 0 && head_dim <= kHeadDimStep * kHeadDims;
}

CpuKernel cpu_library_kernel(const ir::Graph& graph, const ir::Node& node, int threads) {
  if (node.op == ir::Op::attention) return attention_forward(graph, node, threads);
  if (node.op == ir::Op::attention_backward) return attention_backward(graph, node, threads);
  if (node.op == ir::Op::embedding_backward) return embedding_backward(graph, node);
  if (node.op == ir::Op::expert_rows) return expert_rows(graph, node);
  if (node.op == ir::Op::cache_append) return cpu_cache_append(graph, node);
  if (node.op == ir::Op::attention_decode) return cpu_attention_decode(graph, node, threads);
  if (node.op == ir::Op::history_append || node.op == ir::Op::history_window)
    return cpu_row_history(graph, node);
  throw std::logic_error("no cpu kernel for " + to_string(node.op));
}

}  // namespace hydrac::codegen
