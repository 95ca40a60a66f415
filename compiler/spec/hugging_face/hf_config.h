// Hugging Face's config.json as keys of our `model` section, and back, by the tables of its families.
#pragma once
#include <optional>
#include <string>

#include "diag/diagnostic.h"
#include "spec/reader/tree.h"
#include "spec/spec.h"

namespace hydrac::spec {

// The map of model keys that the config.json at `path` stands for, each with its place in that file.
// `wanted_by` is where the spec names the file, `written` the spec's own model section, whose keys win:
// nothing they replace is an error. Otherwise what hydrac cannot build is one; keys it does not know are
// warnings.
std::optional<Node> read_hf_config(const std::string& path, const diag::Location& wanted_by,
                                   const Node& written, diag::Diagnostics& diagnostics);

// The config.json of a checkpoint of this spec's model.
std::string config_json(const Spec& spec);

}  // namespace hydrac::spec
