#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/cudnn/attention.h"

namespace hydrac::runtime::cudnn {
namespace {

bool has_bad_stride(const Strides& strides) {
  const std::array<std::int64_t, 3> all{strides.batch, strides.token, strides.head};
  return std::any_of(all.begin(), all.end(),
                     [](std::int64_t stride) { return stride <= 0 || stride % 8 != 0; });
}

// The first tensor whose strides cuDNN cannot read, or nullptr.
const char* tensor_with_bad_stride(const AttentionProblem& p, bool gradients) {
  struct Named {
    const char* name;
    const Strides& strides;
    bool gradient;
  };
  for (const Named& tensor :
       {Named{"q", p.q, false}, Named{"k", p.k, false}, Named{"v", p.v, false}, Named{"out", p.out, false},
        Named{"d_out", p.d_out, true}, Named{"d_q", p.d_q, true}, Named{"d_k", p.d_k, true},
        Named{"d_v", p.d_v, true}}) {
    if ((gradients || !tensor.gradient) && has_bad_stride(tensor.strides)) return tensor.name;
  }
  return nullptr;
}

}  // namespace

std::optional<std::string> unsupported_reason(const AttentionProblem& p, int capability, bool gradients) {
  if (p.batch < 1 || p.heads < 1 || p.kv_heads < 1 || p.heads % p.kv_heads != 0) {
    return fmt::format(
        "cuDNN's attention needs a number of heads ({}) that the number of key and value heads ({}) "
        "divides, and a batch ({}) of at least 1",
        p.heads, p.kv_heads, p.batch);
  }
  if (!std::isfinite(p.scale) || p.scale <= 0) {
    return fmt::format("cuDNN's attention needs a positive scale, not {}", p.scale);
  }
  if (capability < 80) {
    return fmt::format(
        "cuDNN's attention needs a GPU of compute capability 8.0 or newer; this one has {}.{}: use the "
        "generated attention",
        capability / 10, capability % 10);
  }
  const std::int64_t largest = capability / 10 == 9 ? 256 : 128;
  if (p.head_dim < 8 || p.head_dim % 8 != 0 || p.head_dim > largest) {
    return fmt::format(
        "cuDNN's attention on a GPU of compute capability {}.{} needs a head_dim that is a multiple of 8 "
        "and at most {}; this one is {}: use the generated attention or another head_dim",
        capability / 10, capability % 10, largest, p.head_dim);
  }
  if (p.tokens < 2) {
    return fmt::format("cuDNN's attention needs at least 2 tokens, not {}: use the generated attention",
                       p.tokens);
  }
  if (const char* tensor = tensor_with_bad_stride(p, gradients)) {
    return fmt::format(
        "cuDNN's attention needs strides of {} that are positive multiples of 8 elements: use the "
        "generated attention or pad the tensor",
        tensor);
  }
  return std::nullopt;
}

}  // namespace hydrac::runtime::cudnn
