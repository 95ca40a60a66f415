// The mask and score rules of an attention node, as data from its attributes. The policies themselves are
// attention/mask.h and attention/scores.h, which kernels share.
#pragma once
#include <compare>
#include <string_view>

#include "ir/graph.h"

namespace hydrac::ops {

// Every mask policy, a line each: MASK(kind, struct).
#define HYDRAC_ATTENTION_MASKS(MASK) \
  MASK(full, FullMask)               \
  MASK(causal, CausalMask)           \
  MASK(window, WindowMask)

struct AttentionRules {
  enum class Mask {
#define MASK(kind, type) kind,
    HYDRAC_ATTENTION_MASKS(MASK)
#undef MASK
  };
  Mask mask = Mask::causal;
  int64_t window = 0;         // tokens that a query sees, its own among them
  int64_t window_period = 0;  // every so many layers one sees all tokens before it; 0 = none does
  double softcap = 0;         // 0 = scores are linear
  bool documents = false;     // a query sees what the mask shows it of its own document

  bool varies_by_layer() const {
    return window_period > 0;
  }
  auto operator<=>(const AttentionRules&) const = default;
};

AttentionRules attention_rules(const ir::Node& node);
ir::Attributes attributes_of(const AttentionRules& rules);

// The structs' names, as kernels are instantiated with them: "CausalMask", "DocumentMask<CausalMask>",
// "LinearScores".
std::string mask_type(const AttentionRules& rules);
std::string_view scores_type(const AttentionRules& rules);

bool hides_later_keys(const AttentionRules& rules);
// True if a query sees a key of its document, in the given layer.
bool sees(const AttentionRules& rules, int64_t tokens, int64_t layer, int64_t query, int64_t key);
// (query, key) pairs of one sequence that are visible; where layers differ, the mean over a period of them.
// How long documents are is not known here: a sequence counts as one.
double visible_pairs(const AttentionRules& rules, int64_t tokens);

}  // namespace hydrac::ops
