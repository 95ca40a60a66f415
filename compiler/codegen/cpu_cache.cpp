#include "codegen/cpu_cache.h"

#include <fmt/format.h>

#include "codegen/attention_text.h"
#include "codegen/parameter_list.h"
#include "cpu/attention_decode.h"

namespace hydrac::codegen {

namespace {

void take(const ir::Graph& graph, KernelSource& source, ParameterList& list, const std::string& type,
          const std::string& name, ir::Use use) {
  list.add(fmt::format("{}* {}", type, name), graph.value(use).shape);
  source.arguments.push_back(use);
  source.parameters.push_back(name);
}

}  // namespace

KernelSource cpu_cache_append(const ir::Graph& graph, const ir::Node& node) {
  const Dimensions dimensions(graph);
  const ir::Use k = node.inputs[0], v = node.inputs[1], keys = node.outputs[0], values = node.outputs[1];
  const ir::Shape &prompts = graph.value(k).shape, &cache = graph.value(keys).shape;
  KernelSource source;
  source.name = "cache_append";
  source.header = "cpu/cache_append.h";
  source.comment = "The keys and values of prompts into the cache";
  ParameterList list;
  take(graph, source, list, "const float", "k", k);
  take(graph, source, list, "const float", "v", v);
  take(graph, source, list, "const std::int32_t", "rows", node.inputs[2]);
  take(graph, source, list, "float", "keys", keys);
  take(graph, source, list, "float", "values", values);
  const auto size = [&](const ir::Dim& dim) { return dimensions.of(dim).text; };
  source.text = fmt::format(
      "static void {}{}"
      "  constexpr cpu::CacheShape shape{{{}, {}, {}, {}}};\n"
      "  cpu::cache_append<{}>(shape, {}, {}, rows, keys, values);\n}}\n",
      kNamePlaceholder, list.text(), size(prompts[0]), size(prompts[1]), size(prompts[2]), size(cache[2]),
      size(cache[3]), heads_text(dimensions, graph, k, "k", cache[3]),
      heads_text(dimensions, graph, v, "v", cache[3]));
  return source;
}

KernelSource cpu_attention_decode(const ir::Graph& graph, const ir::Node& node, int threads) {
  const Dimensions dimensions(graph);
  const ops::AttentionRules rules = ops::attention_rules(node);
  const ir::Use q = node.inputs[0], k = node.inputs[1], v = node.inputs[2], out = node.outputs[0];
  const ir::Shape &queries = graph.value(q).shape, &cache = graph.value(node.outputs[1]).shape;
  KernelSource source;
  source.name = "attention_decode";
  source.header = "cpu/attention_decode.h";
  source.comment =
      fmt::format("out = {} v over the cache, to which k and v are added", softmax_formula(rules));
  source.takes_layer = rules.varies_by_layer();
  ParameterList list;
  take(graph, source, list, "const float", "q", q);
  take(graph, source, list, "const float", "k", k);
  take(graph, source, list, "const float", "v", v);
  take(graph, source, list, "const std::int32_t", "positions", node.inputs[3]);
  take(graph, source, list, "float", "keys", node.outputs[1]);
  take(graph, source, list, "float", "values", node.outputs[2]);
  take(graph, source, list, "float", "out", out);
  list.add("void* workspace");
  if (source.takes_layer) list.add("int layer");
  const auto scale = static_cast<float>(node.number("scale"));
  const cpu::AttentionShape shape{queries[0].size, cache[2].size, queries[2].size, cache[1].size, scale};
  source.workspace_bytes = static_cast<int64_t>(cpu::attention_decode_workspace<8>(shape, threads));
  const auto size = [&](const ir::Dim& dim) { return dimensions.of(dim).text; };
  const auto heads = [&](ir::Use use, const std::string& name) {
    return heads_text(dimensions, graph, use, name, queries[3]);
  };
  const std::string members = fmt::format("{}, {}, {}, {}, {}f", size(queries[0]), size(cache[2]),
                                          size(queries[2]), size(cache[1]), scale);
  source.text = fmt::format(
      "static void {}{}{}"
      "  constexpr int kThreads = {};  // that the workspace is for\n"
      "  static_assert(cpu::attention_decode_workspace<{}>({}, kThreads) <= {});\n"
      "  cpu::attention_decode<{}, {}, {}>(shape, {}, {}, {},\n      positions, keys, values, {}, "
      "{{workspace, "
      "kThreads}});\n}}\n",
      kNamePlaceholder, list.text(), shape_definition(rules, "cpu::AttentionShape", members, size(cache[2])),
      threads, size(queries[3]), constant_shape(rules), source.workspace_bytes, size(queries[3]),
      mask_type(rules), scores_type(rules), heads(q, "q"), heads(k, "k"), heads(v, "v"), heads(out, "out"));
  return source;
}

}  // namespace hydrac::codegen
