// `hydrac diff`: whether an emitted program is current, or what changes from one spec to another.
#include <filesystem>

#include "cli/verb.h"
#include "runtime/data/source_kind.h"
#include "runtime/error.h"

namespace hydrac::cli {

int diff_verb(const Arguments& arguments) {
  if (arguments.positional.size() != 2) {
    throw runtime::InputError(
        "diff takes a spec and a folder that `hydrac emit` made of it, or two specs: hydrac diff SPEC "
        "FOLDER");
  }
  const std::string& second = arguments.positional[1];
  const bool two_specs = !std::filesystem::is_directory(second) &&
                         (runtime::has_extension(second, ".yaml") || runtime::has_extension(second, ".yml"));
  if (two_specs && (arguments.has("--stat") || arguments.has("--quiet")))
    throw runtime::InputError("--stat and -q are for a spec and a folder, not for two specs");
  return two_specs ? diff_specs(arguments) : diff_folder(arguments, second);
}

}  // namespace hydrac::cli
