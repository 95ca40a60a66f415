#include "runtime/checkpoint/manifest.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/crc32c.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* format_name = "hydrac-checkpoint-1";

bool parse_manifest(const std::string& text, Manifest& manifest) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object() || object.value("format", json()) != format_name) return false;
  const json step = object.value("step", json());
  const json files = object.value("files", json());
  if (!step.is_number_unsigned() || step.get<uint64_t>() > INT64_MAX || !files.is_array()) return false;
  manifest.step = step.get<int64_t>();
  for (const json& file : files) {
    if (!file.is_object()) return false;
    const json name = file.value("name", json()), bytes = file.value("bytes", json()),
               sum = file.value("crc32c", json());
    if (!name.is_string() || !bytes.is_number_unsigned() || !sum.is_number_unsigned()) return false;
    if (!is_plain_name(name.get<std::string>()) || sum.get<uint64_t>() > UINT32_MAX) return false;
    manifest.files.push_back({name, bytes, sum});
  }
  return true;
}

// "" or what is wrong with the file's contents.
std::string content_damage(const std::filesystem::path& path, const ManifestFile& expected) {
  const RegularFile file(path);
  if (!file.problem().empty()) return fmt::format("{} cannot be read: {}", expected.name, file.problem());
  std::string piece;
  uint32_t crc = 0;
  do {
    piece.clear();
    if (!file.read_all(piece, size_t{1} << 20))
      return fmt::format("{} cannot be read: {}", expected.name, std::strerror(errno));
    crc = crc32c(std::as_bytes(std::span(piece)), crc);
  } while (!piece.empty());
  if (crc == expected.crc32c) return "";
  return fmt::format("{} has the checksum {:08x}, the manifest says {:08x}", expected.name, crc,
                     expected.crc32c);
}

// "" or what is wrong; `manifest` counts only when nothing is.
std::string read_manifest(const std::filesystem::path& dir, Manifest& manifest) {
  std::error_code error;
  const bool is_there = std::filesystem::exists(dir / manifest_name, error);
  if (error) return fmt::format("{} cannot be read: {}", manifest_name, error.message());
  if (!is_there) return "it has no manifest.json, so it was never completed";
  try {
    if (parse_manifest(read_file(dir / manifest_name), manifest)) return "";
  } catch (const InputError& error) {
    return error.what();
  }
  return "its manifest.json is damaged";
}

}  // namespace

bool is_plain_name(const std::string& name) {
  if (name.empty() || name.size() > 200 || name[0] == '.') return false;
  return std::none_of(name.begin(), name.end(),
                      [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string manifest_json(const Manifest& manifest) {
  ordered_json files = ordered_json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.size}, {"crc32c", file.crc32c}});
  }
  return ordered_json{{"format", format_name}, {"step", manifest.step}, {"files", std::move(files)}}.dump(2) +
         "\n";
}

std::string manifest_damage(const std::filesystem::path& dir, std::optional<int64_t> step,
                            ManifestCheck check) {
  Manifest manifest;
  if (std::string damage = read_manifest(dir, manifest); !damage.empty()) return damage;
  if (step && manifest.step != *step) return fmt::format("its manifest.json is of step {}", manifest.step);
  for (const ManifestFile& file : manifest.files) {
    const std::filesystem::path path = dir / file.name;
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0)
      return fmt::format("{} cannot be read: {}", file.name, std::strerror(errno));
    if (!S_ISREG(info.st_mode)) return fmt::format("{} is no regular file", file.name);
    if (static_cast<uint64_t>(info.st_size) != file.size) {
      return fmt::format("{} has {} bytes, the manifest says {}", file.name, info.st_size, file.size);
    }
  }
  if (check == ManifestCheck::sizes) return "";
  for (const ManifestFile& file : manifest.files) {
    if (std::string damage = content_damage(dir / file.name, file); !damage.empty()) return damage;
  }
  return "";
}

}  // namespace hydrac::runtime
