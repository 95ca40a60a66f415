// Sources of a spec: the specs it extends, itself, and overrides.
#pragma once
#include "spec/reader/tree.h"

namespace hydrac::spec {

// Two keys of a section of which a spec writes one.
struct Alternatives {
  std::string_view section, one, other;
};
inline constexpr Alternatives kLength{"train", "max_steps", "epochs"};
inline constexpr Alternatives kGlobalBatch{"train", "global_batch_size", "global_batch_tokens"};
inline constexpr Alternatives kSources{"data", "path", "mix"};
inline constexpr Alternatives kValidation{"data", "val_path", "val"};

// Lays `over` onto `base`, as overlay() does; where `over` writes one of two alternatives, the other leaves
// `base`.
void overlay_spec(Node& base, Node over);

}  // namespace hydrac::spec
