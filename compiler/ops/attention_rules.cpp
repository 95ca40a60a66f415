#include "ops/attention_rules.h"

#include <stdexcept>

#include "attention/mask.h"

namespace hydrac::ops {

namespace {

struct MaskSizes {
  int64_t tokens, window;
};

template <class Visit>
auto with_mask(AttentionRules::Mask mask, Visit visit) {
  switch (mask) {
#define MASK(kind, type)           \
  case AttentionRules::Mask::kind: \
    return visit(type{});
    HYDRAC_ATTENTION_MASKS(MASK)
#undef MASK
  }
  throw std::logic_error("no such mask");
}

bool sees_everything_before(const AttentionRules& rules, int64_t layer) {
  return rules.varies_by_layer() && (layer + 1) % rules.window_period == 0;
}

int64_t pairs_in_window(const AttentionRules& rules, int64_t tokens, int64_t window) {
  return with_mask(rules.mask, [&](auto mask) {
    return hydrac::visible_pairs<decltype(mask)>(MaskSizes{tokens, window});
  });
}

}  // namespace

AttentionRules attention_rules(const ir::Node& node) {
  AttentionRules rules;
  if (!node.flag("causal")) rules.mask = AttentionRules::Mask::full;
  if (node.attributes.contains("window")) {
    rules.mask = AttentionRules::Mask::window;
    rules.window = node.integer("window");
  }
  if (node.attributes.contains("window_period")) rules.window_period = node.integer("window_period");
  if (node.attributes.contains("softcap")) rules.softcap = node.number("softcap");
  rules.documents = node.optional_flag("documents");
  return rules;
}

ir::Attributes attributes_of(const AttentionRules& rules) {
  ir::Attributes attributes = {{"causal", hides_later_keys(rules)}};
  if (rules.window > 0) attributes["window"] = rules.window;
  if (rules.window_period > 0) attributes["window_period"] = rules.window_period;
  if (rules.softcap > 0) attributes["softcap"] = rules.softcap;
  if (rules.documents) attributes["documents"] = true;
  return attributes;
}

std::string mask_type(const AttentionRules& rules) {
  switch (rules.mask) {
#define MASK(kind, type)           \
  case AttentionRules::Mask::kind: \
    return rules.documents ? "DocumentMask<" #type ">" : #type;
    HYDRAC_ATTENTION_MASKS(MASK)
#undef MASK
  }
  throw std::logic_error("no such mask");
}

std::string_view scores_type(const AttentionRules& rules) {
  return rules.softcap > 0 ? "CappedScores" : "LinearScores";
}

bool hides_later_keys(const AttentionRules& rules) {
  return with_mask(rules.mask, [](auto mask) { return decltype(mask)::hides_later; });
}

bool sees(const AttentionRules& rules, int64_t tokens, int64_t layer, int64_t query, int64_t key) {
  const MaskSizes sizes{tokens, sees_everything_before(rules, layer) ? tokens : rules.window};
  return with_mask(rules.mask, [&](auto mask) {
    return decltype(mask)::sees(sizes, static_cast<int>(query), static_cast<int>(key));
  });
}

double visible_pairs(const AttentionRules& rules, int64_t tokens) {
  const auto pairs = static_cast<double>(pairs_in_window(rules, tokens, rules.window));
  if (!rules.varies_by_layer()) return pairs;
  const auto all = static_cast<double>(pairs_in_window(rules, tokens, tokens));
  const double share = 1 / static_cast<double>(rules.window_period);
  return share * all + (1 - share) * pairs;
}

}  // namespace hydrac::ops
