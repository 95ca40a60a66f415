// Scale and softcap of logits before a softmax over classes.
#pragma once
#include <optional>

#include "ir/body_builder.h"

namespace hydrac::ops {

inline constexpr double kNoLogit = -1e30;  // its exponential is 0, and no difference with it is NaN

// 0: none.
inline double softcap_of(const ir::Node& node) {
  return node.attributes.contains("softcap") ? node.number("softcap") : 0;
}

// The logit as the softmax takes it, and the derivative of that.
struct Logit {
  Logit(ir::BodyBuilder& k, const ir::Node& node, ir::Term logit) : value(logit) {
    const double cap = softcap_of(node);
    if (cap == 0) return;
    ratio = k.named("capped_share", tanh(logit * (1 / cap)));
    value = k.named("capped_logit", *ratio * cap);
  }
  ir::Term times_derivative(ir::Term gradient) const {
    return ratio ? gradient * (1 - *ratio * *ratio) : gradient;
  }

  ir::Term value;
  std::optional<ir::Term> ratio;  // tanh of logit / softcap
};

}  // namespace hydrac::ops
