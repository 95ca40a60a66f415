// `hydrac build`: emit a program and compile it ahead of time, by CMake.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>

#include "cli/input/spec_input.h"
#include "cli/output/emitted_files.h"
#include "cli/verb.h"
#include "cli/version.h"
#include "emit/folder/folder.h"
#include "process/run_program.h"
#include "runtime/error.h"

namespace hydrac::cli {

namespace fs = std::filesystem;

namespace {

void run(const std::vector<std::string>& command, bool quiet) {
  if (!quiet) fmt::print("{}\n", fmt::join(command, " "));
  std::fflush(stdout);
  const int code = run_program(command, quiet ? Says::only_errors : Says::to_screen).code;
  if (code == 127)
    throw runtime::InputError(
        "cmake is not installed, which builds the program (Debian, Ubuntu: apt-get install cmake)");
  if (code != 0)
    throw runtime::RunError(fmt::format("{} failed; what it said stands above", fmt::join(command, " ")));
}

// CMake's own choice is make; a machine may have Ninja alone, which ./dev installs.
std::vector<std::string> generator() {
  const auto is_there = [](const char* program) {
    return run_program({program, "--version"}, Says::all_to_caller).code == 0;
  };
  if (std::getenv("CMAKE_GENERATOR") || is_there("make") || !is_there("ninja")) return {};
  return {"-G", "Ninja"};
}

}  // namespace

int build_verb(const Arguments& arguments) {
  const auto output = arguments.value("--output");
  if (!output) throw runtime::InputError("where to? Name the folder: hydrac build SPEC -o FOLDER");
  const std::optional<LockedSpec> locked = load_with_lock(arguments, LockFor::any_machine);
  if (!locked) return kBadInput;
  const bool quiet = arguments.has("--quiet");
  Arguments carrying = arguments;
  carrying.options["--vendor-runtime"] = "";
  const fs::path folder = *output, build = folder / "build";
  const emit::Files files = emitted_files(carrying, *locked, folder);
  emit::write(folder, files, emit::compare(folder, files, consent_of(arguments)), version_name());
  std::vector<std::string> configure = {"cmake", "-S", folder.string(), "-B", build.string()};
  if (!fs::exists(build / "CMakeCache.txt")) std::ranges::copy(generator(), std::back_inserter(configure));
  run(configure, quiet);
  const unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  run({"cmake", "--build", build.string(), "--parallel", std::to_string(jobs)}, quiet);
  if (!quiet) fmt::print("{}: trains; --help lists its options\n", (build / "train").string());
  return kFine;
}

}  // namespace hydrac::cli
