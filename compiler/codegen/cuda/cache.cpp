#include "codegen/cuda/cache.h"

#include <stdexcept>

#include "codegen/attention_text.h"
#include "codegen/expression_text.h"
#include "cuda/decode_geometry.h"
#include "cuda/top_geometry.h"
#include "ops/attention_decode.h"

namespace hydrac::codegen {

namespace {

// A kernel of a template's, without its tensors and its body.
CudaKernel template_kernel(const std::string& name, const std::string& header, const targets::Target& gpu) {
  CudaKernel kernel;
  kernel.name = name;
  kernel.header = header;
  kernel.text.attributes = kernel_attributes();
  open_body(kernel.text, gpu);
  return kernel;
}

// The text that both kernels of an attention_decode node share.
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
        pages_(ops::page_table(node)),
        tokens_(pages_ ? size(graph.value(*pages_).shape[1]) * size(cache_[2]) : size(cache_[2])),
        type_(c_type(graph.value(node.inputs[0]).dtype, kCudaDialect)) {
    const auto number = [](const ir::Dim& dim) { return static_cast<int>(dim.size); };
    problem_ = {number(queries_[0]), static_cast<int>(tokens_.value),
                number(queries_[2]), number(cache_[1]),
                number(queries_[3]), gpu.sms};
    launch_ = decode_launch(problem_);
  }

  const cuda::DecodeLaunch& launch() const { return launch_; }
  int64_t workspace_bytes() const { return decode_workspace_bytes(problem_); }

  CudaKernel first() const {
    CudaKernel kernel = template_kernel("attention_decode", kHeader, gpu_);
    kernel.comment = fmt::format("{}{} v over the cache, to which k and v are added{}",
                                 is_rotated() ? "q and k turned by their positions' angles; " : "",
                                 softmax_formula(rules_), launch_.parts > 1 ? ", in parts of the keys" : "");
    kernel.takes_layer = rules_.varies_by_layer();
    kernel.takes_workspace = launch_.parts > 1;
    kernel.launch = {launch_.blocks, cuda::kDecodeThreads, 0, "kLaunch.blocks"};
    kernel.text.attributes = kernel_attributes(least_blocks());
    kernel.read(graph_, "q", node_.inputs[0]);
    kernel.read(graph_, "k", node_.inputs[1]);
    kernel.read(graph_, "v", node_.inputs[2]);
    kernel.read(graph_, "positions", node_.inputs[3]);
    if (pages_) kernel.read(graph_, "pages", *pages_);
    if (const auto rotation = ops::rotation_in_decode(node_)) {
      kernel.read(graph_, "cos_table", rotation->cos);
      kernel.read(graph_, "sin_table", rotation->sin);
    }
    kernel.write(graph_, "keys", node_.outputs[1]);
    kernel.write(graph_, "values", node_.outputs[2]);
    kernel.write(graph_, "out", node_.outputs[0]);
    if (kernel.takes_workspace) kernel.text.take("float*", "workspace");
    if (kernel.takes_layer) kernel.text.take("int", "layer");
    set_up(kernel.text, rules_);
    kernel.text.body.line(
        "cuda::attention_decode<Config>(shape, {}, {}, {},\n      positions, {{{}}}, keys, values, {}, "
        "{}{});",
        heads(node_.inputs[0], "q"), heads(node_.inputs[1], "k"), heads(node_.inputs[2], "v"),
        is_rotated() ? "cos_table, sin_table" : "", heads(node_.outputs[0], "out"),
        kernel.takes_workspace ? "workspace" : "nullptr", pages_ ? ", pages" : "");
    return kernel;
  }

  CudaKernel second() const {
    CudaKernel kernel = template_kernel("attention_decode_parts", kHeader, gpu_);
    kernel.comment = "The parts of attention_decode added up";
    kernel.takes_workspace = true;
    const Size blocks = dimensions_.of(queries_[0]) * dimensions_.of(queries_[2]);
    kernel.launch = {blocks.value, cuda::kDecodeThreads, 0, blocks.code};
    kernel.write(graph_, "out", node_.outputs[0]);
    kernel.text.take("float*", "workspace");
    ops::AttentionRules without_window = rules_;
    without_window.window_period = 0;  // which layer it is changes nothing here
    set_up(kernel.text, without_window);
    kernel.text.body.line("cuda::attention_decode_parts<Config>(shape, workspace, {});",
                          heads(node_.outputs[0], "out"));
    return kernel;
  }

 private:
  static constexpr const char* kHeader = "cuda/attention_decode.cuh";

  // The second launch bound: four blocks a multiprocessor, if 128 registers suffice without spills. 64
  // sequences with 8 kv heads are then one wave on an H100; with three blocks a multiprocessor they would be
  // two.
  std::string least_blocks() const {
    const int64_t width = queries_[3].size;
    const bool fits = graph_.value(node_.inputs[0]).dtype == ir::DType::bf16 && gpu_.capability >= 80 &&
                      gpu_.capability <= 90 && launch_.parts == 1 && launch_.heads <= 4 &&
                      (width == 64 || width == 128) && rules_.mask == ops::AttentionRules::Mask::causal &&
                      rules_.softcap == 0;
    return fits ? ", 4" : "";
  }

  bool is_rotated() const { return ops::rotation_in_decode(node_).has_value(); }

  // The last of the configuration's arguments: what is turned, and the tokens of a page.
  Code rotation_and_pages() const {
    if (!is_rotated() && !pages_) return {};
    const char* rotation = !is_rotated()                        ? "none"
                           : node_.optional_flag("interleaved") ? "neighbours"
                                                                : "halves";
    return code(", cuda::Rotation::{}{}", rotation, pages_ ? code(", {}", size(cache_[2])) : Code());
  }

  Size size(const ir::Dim& dim) const { return dimensions_.of(dim); }

  // The constants, and what the body has before its call.
  void set_up(KernelText& kernel, const ops::AttentionRules& rules) const {
    kernel.sizes.line(
        "constexpr cuda::DecodeLaunch kLaunch = cuda::decode_launch({{.sequences = {}, .context = {},\n"
        "    .heads = {}, .kv_heads = {}, .head_dim = {}, .multiprocessors = {}}});",
        size(queries_[0]), tokens_, size(queries_[2]), size(cache_[1]), size(queries_[3]),
        problem_.multiprocessors);
    kernel.sizes.line("constexpr int kThreads = cuda::kDecodeThreads;");
    use_sizes(kernel);
    kernel.body.line("using Config = cuda::DecodeConfig<{}, {}, kLaunch, {}, {}{}>;", type_,
                     size(queries_[3]), mask_type(rules), scores_type(rules), rotation_and_pages());
    define_shape(kernel.body, rules, {"SequenceShape"},
                 code("{}, {}, {}, {}", tokens_, size(queries_[2]), size(cache_[1]),
                      static_cast<float>(node_.number("scale"))),
                 tokens_, size(queries_[3]));
  }

  Code heads(ir::Use use, const std::string& name) const {
    return heads_code(dimensions_, graph_, use, name, queries_[3]);
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const targets::Target& gpu_;
  const Dimensions dimensions_;
  const ops::AttentionRules rules_;
  const ir::Shape queries_, cache_;  // [S,1,H,D], [S,K,M,D] or [Pages,K,N,D]
  const std::optional<ir::Use> pages_;
  const Size tokens_;  // that a sequence has room for
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
  const auto size = [&](const ir::Dim& dim) { return dimensions.of(dim); };
  CudaKernel kernel = template_kernel("cache_append", "cuda/cache_append.cuh", gpu);
  kernel.comment = "The keys and values of prompts into the cache";
  kernel.read(graph, "k", k);
  kernel.read(graph, "v", v);
  kernel.read(graph, "rows", node.inputs[2]);
  const bool is_paged = node.inputs.size() > 5;
  if (is_paged) kernel.read(graph, "pages", node.inputs[5]);
  kernel.write(graph, "keys", keys);
  kernel.write(graph, "values", values);
  constexpr int64_t threads = 256, columns = 8;  // as the template has them
  const int64_t vectors = element_count(prompts) / columns;
  kernel.launch = {(vectors + threads - 1) / threads, static_cast<int>(threads), 0, "kBlocks"};
  kernel.text.sizes = launch_constants(kernel.launch);
  kernel.text.body.line("cuda::cache_append<{}, {}, {}, {}, {}, {}{}>({}, {}, rows, keys, values{});",
                        c_type(graph.value(k).dtype, kCudaDialect), size(prompts[0]), size(prompts[1]),
                        size(prompts[2]), size(cache[2]), size(cache[3]),
                        is_paged ? code(", {}", size(graph.value(node.inputs[5]).shape[1])) : Code(),
                        heads_code(dimensions, graph, k, "k", cache[3]),
                        heads_code(dimensions, graph, v, "v", cache[3]), is_paged ? ", pages" : "");
  return {{std::move(kernel)}, 0};
}

CudaKernels cuda_top_logits(const ir::Graph& graph, const ir::Node& node, const targets::Target& gpu) {
  const Dimensions dimensions(graph);
  const ir::Shape &logits = graph.value(node.inputs[0]).shape, &top = graph.value(node.outputs[0]).shape;
  const auto columns = static_cast<int>(logits.back().size), rows = static_cast<int>(top[0].size);
  if (top[1].size != cuda::kTop || !cuda::finds_top(columns)) throw std::logic_error("top was not checked");
  const Size vocabulary = dimensions.of(logits.back());
  const auto logits_kernel = [&](const std::string& name, int64_t blocks, int threads) {
    CudaKernel kernel = template_kernel(name, "cuda/top_logits.cuh", gpu);
    kernel.takes_workspace = true;
    kernel.launch = {blocks, threads, 0, "kBlocks"};
    kernel.text.sizes = launch_constants(kernel.launch);
    kernel.read(graph, "logits", node.inputs[0]);
    kernel.read(graph, "inverse_temperature", node.inputs[1]);
    kernel.read(graph, "vocabulary", node.inputs[2]);
    return kernel;
  };
  CudaKernel first =
      logits_kernel("top_logits_parts", int64_t{rows} * cuda::top_parts(columns), cuda::kTopThreads);
  first.comment = "Of each group of a row's logits the largest, and the sums of all exponentials";
  first.text.take("float*", "workspace");
  first.text.body.line("cuda::top_logits_parts<{}>(logits, inverse_temperature, vocabulary, workspace);",
                       vocabulary);
  CudaKernel second = logits_kernel("top_logits", rows, cuda::kSelectThreads);
  second.comment = "The largest logits of each row, from those of its groups, and a column drawn from it";
  second.read(graph, "uniforms", node.inputs[3]);
  second.write(graph, "values", node.outputs[0]);
  second.write(graph, "ids", node.outputs[1]);
  second.write(graph, "sums", node.outputs[2]);
  second.write(graph, "drawn", node.outputs[3]);
  second.text.take("float*", "workspace");
  second.text.body.line(
      "cuda::top_logits<{}>(logits, inverse_temperature, vocabulary, uniforms, workspace,\n"
      "      values, ids, sums, drawn);",
      vocabulary);
  return {{std::move(first), std::move(second)}, cuda::top_workspace_bytes(rows, columns)};
}

}  // namespace hydrac::codegen
