// Resolved specs as text. load_spec(to_yaml(spec)) gives the same spec again.
#pragma once
#include <filesystem>
#include <string>

#include "spec/spec.h"

namespace hydrac::spec {

// Every key with its final value, sections in the order of keys.def, ready to be a spec.yaml in `folder`: its
// paths are relative to that, else to the working folder.
std::string to_yaml(const Spec& spec, const std::filesystem::path& folder = {});

// The same as one JSON object, nested as the sections are.
std::string to_json(const Spec& spec);

// The value of one key ("model.norm_eps") as JSON.
std::string key_json(const Spec& spec, std::string_view path);

// `text` as a YAML scalar: plain where every reader takes it for text, else in quotes.
std::string yaml_text(const std::string& text);

// As the key is written: "true", "false", "0.25".
std::string to_string(const Share& share);

}  // namespace hydrac::spec
