// Files of a cache that several threads and processes share: whole or not there.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace hydrac::runtime::cuda {

// Written beside and renamed into place, so that a reader never sees half a file; makes the folder. False
// when that fails.
bool write_whole(const std::filesystem::path& path, std::string_view content);

// nullopt when there is no such file, or it cannot be read.
std::optional<std::string> read_whole(const std::filesystem::path& path);

}  // namespace hydrac::runtime::cuda
