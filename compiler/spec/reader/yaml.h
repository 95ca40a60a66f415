// YAML text to a tree. Stricter than YAML: no duplicate keys, anchors, aliases, merge keys, tags, or second
// document.
#pragma once
#include <optional>
#include <string>

#include "diag/diagnostic.h"
#include "spec/reader/tree.h"

namespace hydrac::spec {

// The tree of `text`, whose first byte stands at `start`. Nothing when the text is no YAML; otherwise what
// could be understood. Everything wrong goes to `diagnostics`.
std::optional<Node> parse_yaml(const std::string& text, const diag::Location& start,
                               diag::Diagnostics& diagnostics);

}  // namespace hydrac::spec
