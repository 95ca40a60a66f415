#include "codegen/cuda_cache.h"

#include <stdexcept>

#include "codegen/attention_text.h"
#include "codegen/expression_text.h"
#include "codegen/parameter_list.h"
#include "cuda/decode_geometry.h"
#include "cuda/top_geometry.h"

namespace hydrac::codegen {

namespace {

// A kernel's tensors, as its parameters and as its arguments.
class Tensors {
 public:
  Tensors(const ir::Graph& graph, CudaKernel& kernel) : graph_(graph), kernel_(kernel) {}

  void read(const std::string& name, ir::Use use) { add("const ", name, use); }
  void write(const std::string& name, ir::Use use) { add("", name, use); }
  ParameterList& list() { return list_; }

 private:
  void add(const std::string& qualifier, const std::string& name, ir::Use use) {
    const ir::Value& value = graph_.value(use);
    list_.add(fmt::format("{}{}* {}", qualifier, c_type(value.dtype, kCudaDialect), name), value.shape);
    kernel_.arguments.push_back(use);
    kernel_.parameters.push_back(name);
  }

  const ir::Graph& graph_;
  CudaKernel& kernel_;
  ParameterList list_;
};

std::string head_of(const std::string& sizes, const std::string& least_blocks = "") {
  return fmt::format("{}extern \"C\" __global__ void __launch_bounds__({}{}) {}", sizes_namespace(sizes),
                     of_sizes("kThreads"), least_blocks, kNamePlaceholder);
}

// What both kernels of attention_decode say of their node.
class DecodeText {
 public:
  DecodeText(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu)
      : graph_(graph),
        node_(node),
        gpu_(gpu),
        dimensions_(graph),
        rules_(ops::attention_rules(node)),
        queries_(graph.value(node.inputs[0]).shape),
        cache_(graph.value(node.outputs[1]).shape),
        type_(c_type(graph.value(node.inputs[0]).dtype, kCudaDialect)) {
    const auto number = [](const ir::Dim& dim) { return static_cast<int>(dim.size); };
    problem_ = {number(queries_[0]), number(cache_[2]),   number(queries_[2]),
                number(cache_[1]),   number(queries_[3]), gpu.sms};
    launch_ = decode_launch(problem_);
  }

  const cuda::DecodeLaunch& launch() const { return launch_; }
  int64_t workspace_bytes() const { return decode_workspace_bytes(problem_); }

  CudaKernel first() const {
    CudaKernel kernel = named("attention_decode");
    kernel.comment = fmt::format("{} v over the cache, to which k and v are added{}", softmax_formula(rules_),
                                 launch_.parts > 1 ? ", in parts of the keys" : "");
    kernel.takes_layer = rules_.varies_by_layer();
    kernel.takes_workspace = launch_.parts > 1;
    kernel.launch = {launch_.blocks, cuda::kDecodeThreads, 0, "kLaunch.blocks"};
    Tensors tensors(graph_, kernel);
    tensors.read("q", node_.inputs[0]);
    tensors.read("k", node_.inputs[1]);
    tensors.read("v", node_.inputs[2]);
    tensors.read("positions", node_.inputs[3]);
    tensors.write("keys", node_.outputs[1]);
    tensors.write("values", node_.outputs[2]);
    tensors.write("out", node_.outputs[0]);
    if (kernel.takes_workspace) tensors.list().add("float* workspace");
    if (kernel.takes_layer) tensors.list().add("int layer");
    kernel.text = fmt::format(
        "{}{}{}{}  cuda::attention_decode<Config>(shape, {}, {}, {},\n      positions, keys, values, {}, "
        "{});\n}}\n",
        head_of(sizes(), least_blocks()), tensors.list().text(), opening_text(gpu_), setup(rules_),
        heads(node_.inputs[0], "q"), heads(node_.inputs[1], "k"), heads(node_.inputs[2], "v"),
        heads(node_.outputs[0], "out"), kernel.takes_workspace ? "workspace" : "nullptr");
    return kernel;
  }

  CudaKernel second() const {
    CudaKernel kernel = named("attention_decode_parts");
    kernel.comment = "The parts of attention_decode added up";
    kernel.takes_workspace = true;
    const Size blocks = dimensions_.of(queries_[0]) * dimensions_.of(queries_[2]);
    kernel.launch = {blocks.value, cuda::kDecodeThreads, 0, blocks.text};
    Tensors tensors(graph_, kernel);
    tensors.write("out", node_.outputs[0]);
    tensors.list().add("float* workspace");
    ops::AttentionRules without_window = rules_;
    without_window.window_period = 0;  // which layer it is changes nothing here
    kernel.text = fmt::format("{}{}{}{}  cuda::attention_decode_parts<Config>(shape, workspace, {});\n}}\n",
                              head_of(sizes()), tensors.list().text(), opening_text(gpu_),
                              setup(without_window), heads(node_.outputs[0], "out"));
    return kernel;
  }

 private:
  static CudaKernel named(const std::string& name) {
    CudaKernel kernel;
    kernel.name = name;
    kernel.header = "cuda/attention_decode.cuh";
    return kernel;
  }

  // Behind the number of threads in the kernel's bounds: four blocks a multiprocessor, where 128 registers
  // suffice without spills. 64 sequences with 8 kv heads are one wave of them on an H100; of three a
  // multiprocessor they would be two.
  std::string least_blocks() const {
    const int64_t width = queries_[3].size;
    const bool fits = graph_.value(node_.inputs[0]).dtype == ir::DType::bf16 && gpu_.capability >= 80 &&
                      gpu_.capability <= 90 && launch_.parts == 1 && launch_.heads <= 4 &&
                      (width == 64 || width == 128) && rules_.mask == ops::AttentionRules::Mask::causal &&
                      rules_.softcap == 0;
    return fits ? ", 4" : "";
  }

  std::string size(const ir::Dim& dim) const { return dimensions_.of(dim).text; }

  std::string sizes() const {
    return fmt::format(
        "constexpr cuda::DecodeLaunch kLaunch = cuda::decode_launch({{.sequences = {}, .context = {},\n"
        "    .heads = {}, .kv_heads = {}, .head_dim = {}, .multiprocessors = {}}});\n"
        "constexpr int kThreads = cuda::kDecodeThreads;\n",
        size(queries_[0]), size(cache_[2]), size(queries_[2]), size(cache_[1]), size(queries_[3]),
        problem_.multiprocessors);
  }

  std::string setup(const ops::AttentionRules& rules) const {
    const std::string members = fmt::format("{}, {}, {}, {}f", size(cache_[2]), size(queries_[2]),
                                            size(cache_[1]), static_cast<float>(node_.number("scale")));
    return fmt::format("{}  using Config = cuda::DecodeConfig<{}, {}, kLaunch, {}, {}>;\n{}", using_sizes(),
                       type_, size(queries_[3]), mask_type(rules), scores_type(rules),
                       shape_definition(rules, "SequenceShape", members, size(cache_[2])));
  }

  std::string heads(ir::Use use, const std::string& name) const {
    return heads_text(dimensions_, graph_, use, name, queries_[3]);
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const targets::Target& gpu_;
  const Dimensions dimensions_;
  const ops::AttentionRules rules_;
  const ir::Shape queries_, cache_;  // [S,1,H,D], [S,K,M,D]
  const std::string type_;
  cuda::DecodeProblem problem_{};
  cuda::DecodeLaunch launch_{};
};

}  // namespace

CudaKernels cuda_attention_decode(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const DecodeText text(graph, node, gpu);
  CudaKernels kernels{{text.first()}, text.workspace_bytes()};
  if (text.launch().parts > 1) kernels.kernels.push_back(text.second());
  return kernels;
}

CudaKernels cuda_cache_append(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const Dimensions dimensions(graph);
  const ir::Use k = node.inputs[0], v = node.inputs[1], keys = node.outputs[0], values = node.outputs[1];
  const ir::Shape &prompts = graph.value(k).shape, &cache = graph.value(keys).shape;
  const auto size = [&](const ir::Dim& dim) { return dimensions.of(dim).text; };
  CudaKernel kernel;
  kernel.name = "cache_append";
  kernel.header = "cuda/cache_append.cuh";
  kernel.comment = "The keys and values of prompts into the cache";
  Tensors tensors(graph, kernel);
  tensors.read("k", k);
  tensors.read("v", v);
  tensors.read("rows", node.inputs[2]);
  tensors.write("keys", keys);
  tensors.write("values", values);
  constexpr int64_t threads = 256, columns = 8;  // as the template has them
  const int64_t vectors = element_count(prompts) / columns;
  kernel.launch = {(vectors + threads - 1) / threads, static_cast<int>(threads), 0, "kBlocks"};
  kernel.text = fmt::format(
      "{}{}{}  cuda::cache_append<{}, {}, {}, {}, {}, {}>({}, {}, rows, keys, values);\n}}\n",
      head_of(launch_constants(kernel.launch)), tensors.list().text(), opening_text(gpu),
      c_type(graph.value(k).dtype, kCudaDialect), size(prompts[0]), size(prompts[1]), size(prompts[2]),
      size(cache[2]), size(cache[3]), heads_text(dimensions, graph, k, "k", cache[3]),
      heads_text(dimensions, graph, v, "v", cache[3]));
  return {{std::move(kernel)}, 0};
}

CudaKernels cuda_top_logits(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const Dimensions dimensions(graph);
  const ir::Shape &logits = graph.value(node.inputs[0]).shape, &top = graph.value(node.outputs[0]).shape;
  const auto columns = static_cast<int>(logits.back().size), rows = static_cast<int>(top[0].size);
  if (top[1].size != cuda::kTop || !cuda::finds_top(columns)) throw std::logic_error("top was not checked");
  const std::string V = dimensions.of(logits.back()).text;
  const auto named = [&](const std::string& name, int64_t blocks, int threads) {
    CudaKernel kernel;
    kernel.name = name;
    kernel.header = "cuda/top_logits.cuh";
    kernel.takes_workspace = true;
    kernel.launch = {blocks, threads, 0, "kBlocks"};
    return kernel;
  };
  CudaKernel first = named("top_logits_parts", int64_t{rows} * cuda::top_parts(columns), cuda::kTopThreads);
  first.comment = "Of each group of a row's logits the largest, and the sums of all exponentials";
  Tensors of_first(graph, first);
  of_first.read("logits", node.inputs[0]);
  of_first.read("inverse_temperature", node.inputs[1]);
  of_first.read("vocabulary", node.inputs[2]);
  of_first.list().add("float* workspace");
  first.text = fmt::format(
      "{}{}{}  cuda::top_logits_parts<{}>(logits, inverse_temperature, vocabulary, workspace);\n}}\n",
      head_of(launch_constants(first.launch)), of_first.list().text(), opening_text(gpu), V);
  CudaKernel second = named("top_logits", rows, cuda::kSelectThreads);
  second.comment = "The largest logits of each row, from those of its groups, and a column drawn from it";
  Tensors of_second(graph, second);
  of_second.read("logits", node.inputs[0]);
  of_second.read("inverse_temperature", node.inputs[1]);
  of_second.read("vocabulary", node.inputs[2]);
  of_second.read("uniforms", node.inputs[3]);
  of_second.write("values", node.outputs[0]);
  of_second.write("ids", node.outputs[1]);
  of_second.write("sums", node.outputs[2]);
  of_second.write("drawn", node.outputs[3]);
  of_second.list().add("float* workspace");
  second.text = fmt::format(
      "{}{}{}  cuda::top_logits<{}>(logits, inverse_temperature, vocabulary, uniforms, workspace,\n"
      "      values, ids, sums, drawn);\n}}\n",
      head_of(launch_constants(second.launch)), of_second.list().text(), opening_text(gpu), V);
  return {{std::move(first), std::move(second)}, cuda::top_workspace_bytes(rows, columns)};
}

}  // namespace hydrac::codegen
