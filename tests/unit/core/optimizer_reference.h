// Optimizers' formulas, as their papers have them, in plain loops; and the small model that tests of updates
// train.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "spec/spec.h"

namespace hydrac::test {

inline constexpr const char* kModel =
    "hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, vocab_size: 5, intermediate_size: 4";

// Parameters and moments.
struct Reference {
  std::vector<double> p, m, v;
};

// One step of the optimizer of `spec` after `step` others, in float64. The first `decayed` elements take
// weight decay; `gradient` is multiplied by `clip`.
inline void step_of(const spec::Spec& spec, Reference& r, const std::vector<double>& gradient, double clip,
                    double rate, int64_t decayed, int step) {
  const auto& o = spec.train.optimizer;
  const auto [b1, b2] = o.betas;
  for (size_t i = 0; i < r.p.size(); ++i) {
    const double g = gradient[i] * clip, decay = static_cast<int64_t>(i) < decayed ? o.weight_decay : 0;
    switch (o.name) {
      case spec::Optimizer::adamw:
      case spec::Optimizer::muon:  // of what it leaves to AdamW
        r.m[i] = b1 * r.m[i] + (1 - b1) * g;
        r.v[i] = b2 * r.v[i] + (1 - b2) * g * g;
        r.p[i] -= rate * decay * r.p[i];
        r.p[i] -= rate * (r.m[i] / (1 - std::pow(b1, step + 1))) /
                  (std::sqrt(r.v[i] / (1 - std::pow(b2, step + 1))) + o.eps);
        break;
      case spec::Optimizer::lion: {
        const double c = b1 * r.m[i] + (1 - b1) * g;
        r.p[i] -= rate * ((c > 0) - (c < 0) + decay * r.p[i]);
        r.m[i] = b2 * r.m[i] + (1 - b2) * g;
        break;
      }
      case spec::Optimizer::sgd:
        r.m[i] = o.momentum * r.m[i] + g;
        r.p[i] -= rate * (r.m[i] + decay * r.p[i]);
    }
  }
}

}  // namespace hydrac::test
