// Folders that hydrac does not write into, whoever names them.
#pragma once
#include <filesystem>
#include <string>

namespace hydrac::runtime {

// "", or why nothing may be written into `folder` (with links followed): it is a part of version control's
// own folder, or of a checkpoint, which is removed as a whole when newer ones replace it.
std::string why_not_written(const std::filesystem::path& folder);

}  // namespace hydrac::runtime
