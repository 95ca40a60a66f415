// manifest.json of a checkpoint: what every file must be for the checkpoint to be complete.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hydrac::runtime {

inline constexpr const char* manifest_name = "manifest.json";

struct ManifestFile {
  std::string name;
  uint64_t size;
  uint32_t crc32c;
};

struct Manifest {
  int64_t step = 0;
  std::vector<ManifestFile> files;
};

std::string manifest_json(const Manifest& manifest);

enum class ManifestCheck { sizes, contents };

// "" if the files of `dir` match its manifest (`contents` reads all of them) and the manifest's step is
// `step`, if that is given; otherwise the problem.
std::string manifest_damage(const std::filesystem::path& dir, std::optional<int64_t> step,
                            ManifestCheck check);

// True if `name` is a plain file name of at most 200 bytes: no folder, not hidden, no control characters.
bool is_plain_name(const std::string& name);

}  // namespace hydrac::runtime
