#include "codegen/attention_text.h"

#include <fmt/format.h>

namespace hydrac::codegen {

std::string heads_text(const Dimensions& dimensions, const ir::Graph& graph, ir::Use use,
                       const std::string& pointer, const ir::Dim& head_dim) {
  const std::vector<int64_t> strides = resolved_view(graph, use.value).strides;
  const int64_t head = strides.size() == 4 ? strides[2] : head_dim.size;
  const auto text = [&](int64_t stride) { return stride_size(dimensions, graph, use.value, stride).text; };
  return fmt::format("{{{}, {}, {}, {}}}", pointer, text(strides[0]), text(strides[1]),
                     head == head_dim.size ? dimensions.of(head_dim).text : text(head));
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

std::string shape_definition(const ops::AttentionRules& rules, const std::string& type,
                             const std::string& members, const std::string& tokens, const std::string& behind,
                             const std::string& documents, const std::string& packed_type) {
  std::string all = members;
  if (rules.window > 0 || rules.softcap > 0) all += fmt::format(", {}", rules.window);
  if (rules.softcap > 0) all += fmt::format(", {:#}f", static_cast<float>(rules.softcap));
  if (!behind.empty()) all = fmt::format("{{{}}}, {}", all, behind);
  std::string text = fmt::format("  constexpr {} {}{{{}}};\n", type, constant_shape(rules), all);
  if (rules.documents) {
    text += fmt::format("  {}{} shape{{{}, {}}};\n", rules.varies_by_layer() ? "" : "const ", packed_type,
                        constant_shape(rules), documents);
  } else if (rules.varies_by_layer()) {
    text += fmt::format("  {} shape = every_layer;\n", type);
  }
  if (!rules.varies_by_layer()) return text;
  return text +
         fmt::format("  if ((layer + 1) % {} == 0) shape.window = {};  // it sees all tokens before it\n",
                     rules.window_period, tokens);
}

}  // namespace hydrac::codegen
