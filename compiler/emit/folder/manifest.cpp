#include "emit/folder/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/data/hash.h"
#include "runtime/error.h"

namespace hydrac::emit {

namespace {

constexpr size_t kDigits = 16;
constexpr const char* kWriterLine = "# Written by ";

uint64_t hash_of(const std::string& text) {
  return runtime::Hash64().add(std::string_view(text)).value();
}

}  // namespace

std::string manifest_text(const Files& files, const std::string& writer) {
  std::string text = fmt::format("{}{}\n", kWriterLine, writer);
  text +=
      "# Hashes of the files as hydrac wrote them, or would have written kernels that are kept. `hydrac "
      "emit` "
      "overwrites no file with another hash.\n";
  for (const auto& [name, contents] : files) text += fmt::format("{:016x}  {}\n", hash_of(contents), name);
  return text;
}

Manifest Manifest::read(const std::filesystem::path& folder, bool tolerant) {
  Manifest manifest;
  const std::filesystem::path file = folder / kManifestFile;
  std::istringstream in(std::filesystem::exists(file) ? runtime::read_file(file) : "");
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.starts_with(kWriterLine)) manifest.writer_ = line.substr(std::string_view(kWriterLine).size());
    if (line.starts_with('#')) continue;
    uint64_t hash = 0;
    const char* end = line.data() + std::min(line.size(), kDigits);
    const bool is_hash =
        std::from_chars(line.data(), end, hash, 16).ptr == end && end - line.data() == kDigits;
    if (!is_hash || line.size() <= kDigits + 2 || line.substr(kDigits, 2) != "  ") {
      if (tolerant) continue;
      throw runtime::InputError(
          fmt::format("{}:{} is no hash of a file: {}\nAfter a merge, emit the program again with --force, "
                      "which overwrites all of it",
                      file.string(), number, runtime::escaped(line)));
    }
    manifest.hashes_[line.substr(kDigits + 2)] = hash;
  }
  return manifest;
}

bool Manifest::lists(const std::string& name, const std::string& text) const {
  const auto found = hashes_.find(name);
  return found != hashes_.end() && found->second == hash_of(text);
}

}  // namespace hydrac::emit
