#include "codegen/cpu/cache.h"

#include "codegen/attention_text.h"
#include "cpu/attention_decode.h"
#include "ops/attention_decode.h"

namespace hydrac::codegen {

CpuKernel cpu_cache_append(const ir::Graph& graph, const ir::Node& node) {
  const Dimensions dimensions(graph);
  const ir::Use k = node.inputs[0], v = node.inputs[1], keys = node.outputs[0], values = node.outputs[1];
  const ir::Shape &prompts = graph.value(k).shape, &cache = graph.value(keys).shape;
  CpuKernel kernel;
  kernel.name = "cache_append";
  kernel.header = "cpu/cache_append.h";
  kernel.comment = "The keys and values of prompts into the cache";
  kernel.read(graph, "k", k);
  kernel.read(graph, "v", v);
  kernel.read(graph, "rows", node.inputs[2]);
  const bool is_paged = node.inputs.size() > 5;
  if (is_paged) kernel.read(graph, "pages", node.inputs[5]);
  kernel.write(graph, "keys", keys);
  kernel.write(graph, "values", values);
  const auto size = [&](const ir::Dim& dim) { return dimensions.of(dim); };
  Block& body = kernel.text.body;
  body.line("constexpr cpu::CacheShape shape{{{}, {}, {}, {}}};", size(prompts[0]), size(prompts[1]),
            size(prompts[2]), size(cache[2]));
  const Code k_heads = heads_code(dimensions, graph, k, "k", cache[3]),
             v_heads = heads_code(dimensions, graph, v, "v", cache[3]);
  if (is_paged)
    body.line("cpu::cache_append_pages<{}>(shape, {}, {}, {}, rows, pages, keys, values);", size(cache[3]),
              size(graph.value(node.inputs[5]).shape[1]), k_heads, v_heads);
  else
    body.line("cpu::cache_append<{}>(shape, {}, {}, rows, keys, values);", size(cache[3]), k_heads, v_heads);
  return kernel;
}

CpuKernel cpu_attention_decode(const ir::Graph& graph, const ir::Node& node, int threads) {
  const Dimensions dimensions(graph);
  const ops::AttentionRules rules = ops::attention_rules(node);
  const ir::Use q = node.inputs[0], k = node.inputs[1], v = node.inputs[2], out = node.outputs[0];
  const ir::Shape &queries = graph.value(q).shape, &cache = graph.value(node.outputs[1]).shape;
  CpuKernel kernel;
  kernel.name = "attention_decode";
  kernel.header = "cpu/attention_decode.h";
  kernel.comment =
      fmt::format("out = {} v over the cache, to which k and v are added", softmax_formula(rules));
  kernel.takes_layer = rules.varies_by_layer();
  kernel.read(graph, "q", q);
  kernel.read(graph, "k", k);
  kernel.read(graph, "v", v);
  kernel.read(graph, "positions", node.inputs[3]);
  const std::optional<ir::Use> pages = ops::page_table(node);
  if (pages) kernel.read(graph, "pages", *pages);
  kernel.write(graph, "keys", node.outputs[1]);
  kernel.write(graph, "values", node.outputs[2]);
  kernel.write(graph, "out", out);
  kernel.text.take("void*", "workspace");
  if (kernel.takes_layer) kernel.text.take("int", "layer");
  const auto scale = static_cast<float>(node.number("scale"));
  const auto size = [&](const ir::Dim& dim) { return dimensions.of(dim); };
  const Size tokens = pages ? size(graph.value(*pages).shape[1]) * size(cache[2]) : size(cache[2]);
  const cpu::AttentionShape shape{queries[0].size, tokens.value, queries[2].size, cache[1].size, scale};
  kernel.workspace_bytes = static_cast<int64_t>(
      cpu::attention_decode_workspace(shape, static_cast<int>(queries[3].size), threads));
  const auto heads = [&](ir::Use use, const std::string& name) {
    return heads_code(dimensions, graph, use, name, queries[3]);
  };
  Block& body = kernel.text.body;
  define_shape(body, rules, {"cpu::AttentionShape"},
               code("{}, {}, {}, {}, {}", size(queries[0]), tokens, size(queries[2]), size(cache[1]), scale),
               tokens, size(queries[3]));
  body.line("constexpr int kThreads = {};", threads).comment = "that the workspace is for";
  body.line("static_assert(cpu::attention_decode_workspace({}, {}, kThreads) <= {});", constant_shape(rules),
            size(queries[3]), kernel.workspace_bytes);
  body.line(
      "cpu::attention_decode<{}, {}, {}{}>(shape, {}, {}, {},\n      positions, keys, values, {}, "
      "{{workspace, kThreads}}{});",
      size(queries[3]), mask_type(rules), scores_type(rules), pages ? code(", {}", size(cache[2])) : Code(),
      heads(q, "q"), heads(k, "k"), heads(v, "v"), heads(out, "out"), pages ? ", pages" : "");
  return kernel;
}

}  // namespace hydrac::codegen
