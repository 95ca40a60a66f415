// The written tree into the fields of a Spec: known keys, right types, allowed values, nothing missing.
#pragma once
#include "spec/reader/draft.h"
#include "spec/reader/tree.h"

namespace hydrac::spec {

// Sets every key that `root` (a map) writes and remembers where; reports unknown keys, bad values and missing
// keys.
void bind(const Node& root, Draft& draft);

// The likely meaning of `path` (which is no key): "did you mean train.max_steps?", or "".
std::string meant_key(std::string_view path);

}  // namespace hydrac::spec
