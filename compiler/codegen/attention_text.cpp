#include "codegen/attention_text.h"

#include "ops/dropout.h"

namespace hydrac::codegen {

Code heads_code(const Dimensions& dimensions, const ir::Graph& graph, ir::Use use, const std::string& pointer,
                const ir::Dim& head_dim) {
  const std::vector<int64_t> strides = resolved_view(graph, use.value).strides;
  const int64_t head = strides.size() == 4 ? strides[2] : head_dim.size;
  const auto size = [&](int64_t stride) { return stride_size(dimensions, graph, use.value, stride); };
  return code("{{{}, {}, {}, {}}}", pointer, size(strides[0]), size(strides[1]),
              head == head_dim.size ? dimensions.of(head_dim) : size(head));
}

std::string softmax_formula(const ops::AttentionRules& rules) {
  const std::string scores =
      rules.softcap > 0 ? fmt::format("{0} tanh(scale q k^T / {0})", rules.softcap) : "scale q k^T";
  const char* within = rules.documents ? " of the document" : "";
  if (rules.window > 0) return fmt::format("softmax({}, the last {} tokens{})", scores, rules.window, within);
  return fmt::format("softmax({}{}{})", scores, hides_later_keys(rules) ? ", causal" : "",
                     rules.documents ? ", within documents" : "");
}

std::string constant_shape(const ops::AttentionRules& rules) {
  return rules.varies_by_layer() ? "every_layer" : rules.documents ? "sequence" : "shape";
}

void define_shape(Block& body, const ops::AttentionRules& rules, const ShapeTypes& types, const Code& members,
                  const Size& tokens, const Code& behind, const Code& documents) {
  const std::string constant = constant_shape(rules);
  const bool varies = rules.varies_by_layer();
  Code all = members;
  if (rules.window > 0 || rules.softcap > 0) all = code("{}, {}", all, rules.window);
  if (rules.softcap > 0) all = code("{}, {}", all, static_cast<float>(rules.softcap));
  if (!behind.empty()) all = code("{{{}}}, {}", all, behind);
  body.line("constexpr {} {}{{{}}};", types.type, constant, all);
  if (rules.documents) {
    body.line("{}{} shape{{{}, {}}};", varies ? "" : "const ", types.packed, constant, documents);
  } else if (varies) {
    body.line("{} shape = every_layer;", types.type);
  }
  if (varies)
    body.line("if ((layer + 1) % {} == 0) shape.window = {};", rules.window_period, tokens).comment =
        "it sees all tokens before it";
}

void define_dropout(Block& body, const ir::Node& node, double probability, const char* type,
                    const char* wrap) {
  if (probability == 0) {
    body.line("constexpr {} dropout{{0, 0, 1.0f}};", type);
  } else {
    body.line("const {} dropout{{random_key(*rng_seed, *rng_step, {} + layer),{}{}, {}}};", type,
              static_cast<uint32_t>(node.integer("site") * ops::kSiteStride), wrap,
              ops::dropout_threshold(probability), static_cast<float>(1 / (1 - probability)));
  }
}

}  // namespace hydrac::codegen
