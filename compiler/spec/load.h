// From a spec file and the command line's overrides to a Spec that is complete and free of contradictions.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "diag/diagnostic.h"
#include "spec/reader/tree.h"
#include "spec/spec.h"

namespace hydrac::spec {

// Reads the spec at `path`, its bases (`extends`), and its `model.from`; then applies overrides
// ("train.max_steps=10"). Everything wrong goes to `diagnostics`, all of it at once; nothing comes back if
// there is an error. Warnings do not stop it. `machine` is what this machine is ("cpu", "h100", "sm_90",
// ...): `target: auto` stands for it, and so does `target: cuda`, which "cpu" does not satisfy. `laid_over`:
// a map of keys from another file that is laid over the spec, below the overrides.
std::optional<Spec> load_spec(const std::string& path, std::span<const std::string> overrides,
                              diag::Diagnostics& diagnostics, std::string_view machine = "cpu",
                              const Node* laid_over = nullptr);

// The same from text; `file` is the name that diagnostics show, and its folder is that of the spec.
std::optional<Spec> load_spec_text(const std::string& file, std::string text,
                                   std::span<const std::string> overrides, diag::Diagnostics& diagnostics,
                                   std::string_view machine = "cpu");

}  // namespace hydrac::spec
