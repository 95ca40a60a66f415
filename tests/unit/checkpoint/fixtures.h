// Files that the safetensors package wrote, and a file's content as bytes.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "tests/unit/support/source_dir.h"

namespace hydrac::runtime {

inline std::string fixture(const std::string& name) {
  return test::source_dir() + "/tests/unit/checkpoint/data/" + name;
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace hydrac::runtime
