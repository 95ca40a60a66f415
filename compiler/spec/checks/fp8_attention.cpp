#include "spec/checks/fp8_attention.h"

#include <fmt/format.h>

#include "spec/checks/attention_tiles.h"
#include "targets/target.h"

namespace hydrac::spec {

std::vector<Fp8AttentionObstacle> fp8_attention_obstacles(const SpecKeys& spec) {
  const targets::Target& target = *targets::find(spec.target);
  const auto& m = spec.model;
  const auto& o = spec.optimizations;
  std::vector<Fp8AttentionObstacle> obstacles;
  const auto add = [&](const char* key, std::string what, const std::string& other) {
    obstacles.push_back({key, "fp8_attention " + std::move(what),
                         "write fp8_attention: false" + (other.empty() ? "" : ", or " + other)});
  };
  if (target.capability != 90) {
    add("target", fmt::format("has kernels for sm_90, and {} is {}", target.name, target.arch), "");
    return obstacles;
  }
  if (o.precision != Precision::fp8)
    add("optimizations.precision", fmt::format("needs precision: fp8, and it is {}", to_string(o.precision)),
        "precision: fp8");
  if (m.head_dim != 64 && m.head_dim != 128)
    add("model.head_dim", fmt::format("takes heads of 64 or 128, and head_dim is {}", m.head_dim), "");
  if (m.attention_dropout > 0) add("model.attention_dropout", "has no dropout", "attention_dropout: 0");
  if (m.attention_softcap > 0) add("model.attention_softcap", "has no softcap", "attention_softcap: 0");
  if (o.attention == AttentionKernel::cudnn)
    add("optimizations.attention", "is of hydrac's kernels, and attention is cudnn",
        "attention: auto or generated");
  if (attention_tiles(spec).forward.is_given())
    add("optimizations.attention_tiles.forward", "has tiles of its own", "attention_tiles.forward: auto");
  return obstacles;
}

}  // namespace hydrac::spec
