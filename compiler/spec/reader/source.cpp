#include "spec/reader/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "diag/render.h"
#include "runtime/base/regular_file.h"
#include "runtime/base/utf8.h"
#include "spec/reader/scalar.h"
#include "spec/reader/yaml.h"

namespace hydrac::spec {
namespace {

namespace fs = std::filesystem;
using diag::Kind;

constexpr size_t kLargest = 256 << 10;  // bytes

diag::Location place_of_byte(const std::string& file, const std::string& text, size_t offset) {
  const auto end = text.begin() + static_cast<ptrdiff_t>(offset);
  const auto line = 1 + std::count(text.begin(), end, '\n');
  const size_t line_start = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  const size_t col = line_start == std::string::npos ? offset + 1 : offset - line_start;
  return {file, static_cast<int>(line), static_cast<int>(col)};
}

// The first byte that no text has, or npos.
size_t binary_byte(const std::string& text) {
  const auto control = std::find_if(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\t' && c != '\r') || byte == 0x7f;
  });
  const size_t first_control =
      control == text.end() ? std::string::npos : static_cast<size_t>(control - text.begin());
  return std::min(first_control, runtime::find_malformed_utf8(text).value_or(std::string::npos));
}

}  // namespace

std::optional<std::string> read_source(const std::string& path, const diag::Location& wanted_by,
                                       diag::Diagnostics& diagnostics) {
  const std::string shown = diag::printable(path, 4096);
  const auto fail = [&](Kind kind, const std::string& why) {
    diagnostics.report(kind, wanted_by, why);
    return std::nullopt;
  };
  const runtime::RegularFile file(path);
  std::string text, problem = file.is_missing() ? "there is no such file" : file.problem();
  if (problem.empty() && !file.read_all(text, kLargest + 1)) problem = std::strerror(errno);
  if (!problem.empty()) return fail(Kind::unreadable_file, fmt::format("cannot read {}: {}", shown, problem));
  if (text.size() > kLargest)
    return fail(Kind::file_too_large, fmt::format("{} is larger than 256 KiB, which no spec is", shown));
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  diagnostics.add_source(path, text);
  return text;
}

bool is_clean_text(const std::string& file, const std::string& text, diag::Diagnostics& diagnostics,
                   const std::string& what_it_is) {
  const size_t bad = binary_byte(text);
  if (bad == std::string::npos) return true;
  diagnostics.report(Kind::binary_file, place_of_byte(file, text, bad),
                     fmt::format("this is no text file: byte {} is 0x{:02x}", bad,
                                 static_cast<unsigned>(static_cast<unsigned char>(text[bad]))),
                     what_it_is);
  return false;
}

std::optional<Node> parse_map(const std::string& file, const std::string& text,
                              diag::Diagnostics& diagnostics) {
  if (!is_clean_text(file, text, diagnostics)) return std::nullopt;
  const diag::Location start{file, 1, 1};
  std::optional<Node> root = parse_yaml(text, start, diagnostics);
  if (!root) return std::nullopt;
  const bool empty =
      root->kind == Node::Kind::null || (root->kind == Node::Kind::map && root->entries.empty());
  if (empty && !diagnostics.has_errors()) {
    diagnostics.report(Kind::empty_spec, start, "this file has no keys",
                       "specs/quickstart.yaml is a small spec to start from");
    return std::nullopt;
  }
  if (root->kind != Node::Kind::map) {
    diagnostics.report(
        Kind::not_a_map, root->where,
        fmt::format("a spec is a map of keys (name: ..., model: ...), not {}", describe(*root)));
    return std::nullopt;
  }
  return root;
}

std::optional<Node> read_map(const std::string& path, const diag::Location& wanted_by,
                             diag::Diagnostics& diagnostics) {
  const std::optional<std::string> text = read_source(path, wanted_by, diagnostics);
  return text ? parse_map(path, *text, diagnostics) : std::nullopt;
}

}  // namespace hydrac::spec
