// Hugging Face's config.json (GPT-2, Llama, Mistral, Qwen2, Qwen3) as keys of our `model` section.
#pragma once
#include <optional>
#include <string>

#include "diag/diagnostic.h"
#include "spec/tree.h"

namespace hydrac::spec {

// The map of model keys that the config.json at `path` stands for, each with its place in that file.
// `wanted_by` is where the spec names the file, `written` the spec's own model section, whose keys win:
// nothing they replace is an error. Otherwise what hydrac cannot build is one; keys it does not know are
// warnings.
std::optional<Node> read_hf_config(const std::string& path, const diag::Location& wanted_by,
                                   const Node& written, diag::Diagnostics& diagnostics);

}  // namespace hydrac::spec
