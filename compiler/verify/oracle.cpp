#include "verify/oracle.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

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
  std::vector<std::string> words = {oracle.string(), verb, dir.string()};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int out[2];
  if (pipe(out) != 0) throw runtime::RunError("cannot make a pipe");
  const pid_t child = fork();
  if (child < 0) throw runtime::RunError("cannot start hydrac-oracle");
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    close(out[0]);
    close(out[1]);
    execv(oracle.c_str(), arguments.data());
    _exit(127);
  }
  close(out[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(out[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(out[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw runtime::RunError(
        fmt::format("{} {} failed{}", oracle.string(), verb, text.empty() ? "" : ": " + text));
  }
  return text;
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
