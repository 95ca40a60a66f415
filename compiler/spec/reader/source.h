// Files that specs are made of, read with suspicion: a spec may come from anywhere.
#pragma once
#include <optional>
#include <string>

#include "diag/diagnostic.h"
#include "spec/reader/tree.h"

namespace hydrac::spec {

// Reads the file at `path` (at most 256 KiB of UTF-8 text, else an error at `wanted_by`, the place that names
// it) and registers its text with `diagnostics`. A byte-order mark is dropped.
std::optional<std::string> read_source(const std::string& path, const diag::Location& wanted_by,
                                       diag::Diagnostics& diagnostics);

// True if `text`, registered as `file`, is text that YAML can be read from; says what it should be otherwise.
bool is_clean_text(const std::string& file, const std::string& text, diag::Diagnostics& diagnostics,
                   const std::string& what_it_is = "a spec is YAML in UTF-8");

// The tree of `text`, which must be a map and not empty.
std::optional<Node> parse_map(const std::string& file, const std::string& text,
                              diag::Diagnostics& diagnostics);

// parse_map() of the file at `path`, read as by read_source(). JSON is YAML too, and read like this every
// value has its place.
std::optional<Node> read_map(const std::string& path, const diag::Location& wanted_by,
                             diag::Diagnostics& diagnostics);

}  // namespace hydrac::spec
