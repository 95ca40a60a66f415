// PEFT's adapter_config.json as keys of our `adapter` section.
#pragma once
#include <optional>
#include <string>

#include "diag/diagnostic.h"
#include "spec/reader/tree.h"

namespace hydrac::spec {

// The map of adapter keys that the adapter_config.json at `path` stands for, each with its place in that
// file. `wanted_by` is where the spec names the file, `written` the spec's own adapter section, whose keys
// win, and missing ones are PEFT's defaults. What hydrac's adapters do not have (DoRA, ranks that differ,
// biases, a base that PiSSA changed, ...) is an error that names the key; peft_keys.def has them all.
std::optional<Node> read_peft_config(const std::string& path, const diag::Location& wanted_by,
                                     const Node& written, diag::Diagnostics& diagnostics);

}  // namespace hydrac::spec
