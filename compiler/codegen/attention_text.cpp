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
                  const Size& tokens, const Size& head_dim, const Code& behind, const Code& documents) {
  const std::string constant = constant_shape(rules);
  const bool varies = rules.varies_by_layer();
  Code all = members;
  if (rules.window > 0 || rules.softcap > 0) all = code("{}, {}", all, rules.window);
  if (rules.softcap > 0) all = code("{}, {}", all, static_cast<float>(rules.softcap));
  if (!behind.empty()) all = code("{{{}}}, {}", all, behind);
  if (!head_dim.is_literal())
    body.line("static_assert({} == {});", head_dim, head_dim.value).comment = "the scale follows from it";
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

void define_dropout(Block& body, const ir::Graph& graph, const ir::Node& node, const char* type,
                    const char* wrap) {
  const ir::Number p = ops::attention_dropout(node);
  if (p.value == 0) {
    body.line("constexpr {} dropout{{0, 0, 1.0f}};", type);
    return;
  }
  const SpecNumbers numbers(graph);
  const ir::Number below = ops::drop_below(p), scale = ops::keep_scale(p);
  numbers.define(body, "constexpr std::uint32_t kDropBelow", below.formula,
                 code("{}", static_cast<uint32_t>(below.value)));
  numbers.define(body, "constexpr float kKeepScale", scale.formula,
                 code("{}", static_cast<float>(scale.value)));
  body.line("const {} dropout{{random_key(*rng_seed, *rng_step, {} + layer),{}kDropBelow, kKeepScale}};",
            type, static_cast<uint32_t>(node.integer("site") * ops::kSiteStride), wrap);
}

}  // namespace hydrac::codegen
