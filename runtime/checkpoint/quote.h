// Names that come out of files, made safe for a message.
#pragma once
#include <string>
#include <string_view>

namespace hydrac::runtime {

// In double quotes, as ASCII: control characters and whatever else a terminal could act on are escaped, and a
// long name is cut. "layers.0.weight"
std::string in_quotes(std::string_view name);

// A JSON string literal of all of `text`, as serde and Python (ensure_ascii off) write it. `text` must be
// UTF-8.
std::string json_string(std::string_view text);

}  // namespace hydrac::runtime
