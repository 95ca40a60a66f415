// The C++ types of spec keys that are neither numbers nor plain enums.
#pragma once
#include <array>
#include <string>
#include <vector>

namespace hydrac::spec {

// Written as one string or as a list of strings.
using StringList = std::vector<std::string>;

using Betas = std::array<double, 2>;

// What the backward pass computes again instead of keeping. `none`, `block` and `automatic` are written as
// words (none, block, auto); `list` as a list of the parts below.
struct Recompute {
  enum class Mode { none, block, automatic, list };
  Mode mode = Mode::none;
  bool norm = false;  // norms' outputs
  bool act = false;   // the mlp's activation
  bool attn = false;  // the attention block
  bool mlp = false;   // the mlp block

  bool operator==(const Recompute&) const = default;
};

}  // namespace hydrac::spec
