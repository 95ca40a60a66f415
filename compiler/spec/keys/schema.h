// keys.def for other readers: editors, people, and `--help`.
#pragma once
#include <string>
#include <string_view>

namespace hydrac::spec {

// The spec language as JSON Schema draft-7: specs/schema.json.
std::string json_schema();

// The spec language as Markdown, one table a section: docs/keys.md.
std::string keys_markdown();

// The keys called `name`, or in sections called so, each with all that is said of it; "" where there is none.
std::string key_help(std::string_view name);

}  // namespace hydrac::spec
