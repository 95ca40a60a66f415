#include "verify/oracle.h"

#include <fmt/format.h>
#include <stdlib.h>

#include "process/run_program.h"
#include "runtime/error.h"

namespace hydrac::verify {

namespace fs = std::filesystem;

fs::path find_oracle(const std::optional<std::string>& given) {
  if (given) {
    if (!fs::exists(*given)) throw runtime::InputError("--oracle: there is no " + *given);
    return *given;
  }
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path() / "hydrac-oracle";
  if (fs::exists(beside)) return beside;
  throw runtime::InputError(
      fmt::format("there is no hydrac-oracle beside hydrac. It needs LibTorch: `./dev test` installs that "
                  "and builds it; or name "
                  "one with --oracle PROGRAM"));
}

std::string run_oracle(const fs::path& oracle, const std::string& verb, const fs::path& dir,
                       const std::vector<std::string>& options) {
  std::vector<std::string> words = {fs::absolute(oracle).string(), verb, dir.string()};
  words.insert(words.end(), options.begin(), options.end());
  const Ended ended = run_program(words, Says::to_caller);
  if (ended.code != 0) {
    throw runtime::RunError(
        fmt::format("{} {} failed{}", oracle.string(), verb, ended.said.empty() ? "" : ": " + ended.said));
  }
  return ended.said;
}

JobFolder::JobFolder(const std::optional<std::string>& keep) {
  if (keep) {
    path_ = *keep;
    fs::create_directories(path_);
    return;
  }
  std::string name = (fs::temp_directory_path() / "hydrac-job-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw runtime::RunError("cannot make a folder in " + fs::temp_directory_path().string());
  path_ = name;
  remove_ = true;
}

JobFolder::~JobFolder() {
  std::error_code ignored;
  if (remove_) fs::remove_all(path_, ignored);
}

}  // namespace hydrac::verify
