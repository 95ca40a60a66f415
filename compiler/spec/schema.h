// What keys.def says, for other readers: editors, people, and `--help`.
#pragma once
#include <string>

namespace hydrac::spec {

// The spec language as JSON Schema draft-7: specs/schema.json.
std::string json_schema();

// The spec language as Markdown, one table a section: docs/keys.md.
std::string keys_markdown();

// One line a key, for `hydrac --help`.
std::string keys_help();

}  // namespace hydrac::spec
