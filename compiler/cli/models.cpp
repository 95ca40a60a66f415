#include <fmt/format.h>

#include "cli/verb.h"
#include "runtime/error.h"
#include "spec/hugging_face/family_uses.h"

namespace hydrac::cli {

int models_verb(const Arguments& arguments) {
  for (const auto* words : {&arguments.positional, &arguments.overrides})
    if (!words->empty())
      throw runtime::InputError(
          fmt::format("models lists all families: \"{}\" is one argument too many", words->front()));
  fmt::print("{}", spec::families_markdown());
  return kFine;
}

}  // namespace hydrac::cli
