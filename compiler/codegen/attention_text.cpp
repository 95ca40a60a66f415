#include "codegen/attention_text.h"

#include <fmt/format.h>

namespace hydrac::codegen {

std::string softmax_formula(const ops::AttentionRules& rules) {
  const std::string scores =
      rules.softcap > 0 ? fmt::format("{0} tanh(scale q k^T / {0})", rules.softcap) : "scale q k^T";
  if (rules.window > 0) return fmt::format("softmax({}, the last {} tokens)", scores, rules.window);
  return fmt::format("softmax({}{})", scores, hides_later_keys(rules) ? ", causal" : "");
}

std::string constant_shape(const ops::AttentionRules& rules) {
  return rules.varies_by_layer() ? "every_layer" : "shape";
}

std::string shape_definition(const ops::AttentionRules& rules, const std::string& type,
                             const std::string& members, const std::string& tokens,
                             const std::string& behind) {
  std::string all = members;
  if (rules.window > 0 || rules.softcap > 0) all += fmt::format(", {}", rules.window);
  if (rules.softcap > 0) all += fmt::format(", {:#}f", static_cast<float>(rules.softcap));
  if (!behind.empty()) all = fmt::format("{{{}}}, {}", all, behind);
  std::string text = fmt::format("  constexpr {} {}{{{}}};\n", type, constant_shape(rules), all);
  if (!rules.varies_by_layer()) return text;
  return text + fmt::format(
                    "  {0} shape = every_layer;\n"
                    "  if ((layer + 1) % {1} == 0) shape.window = {2};  // it sees all tokens before it\n",
                    type, rules.window_period, tokens);
}

}  // namespace hydrac::codegen
