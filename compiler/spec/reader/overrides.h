// `train.max_steps=10` on the command line, as if written in the spec.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "diag/diagnostic.h"
#include "spec/reader/tree.h"

namespace hydrac::spec {

// Lays each override onto `root`, in order. The overrides, joined by spaces, are line 1 of the source
// "<command line>". Values are YAML (`betas=[0.9, 0.99]`); for keys that hold text they are taken as they
// stand, quotes or not.
void apply_overrides(std::span<const std::string> overrides, Node& root, diag::Diagnostics& diagnostics);

// The problem with `text` as the value of the key at `path`, said of `name`: an option that stands for the
// key. Empty when there is none.
std::string option_problem(std::string_view path, const std::string& text, const std::string& name);

}  // namespace hydrac::spec
