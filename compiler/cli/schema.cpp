#include "spec/schema.h"

#include <fmt/format.h>

#include "cli/verb.h"
#include "runtime/error.h"

namespace hydrac::cli {

namespace {

void require_nothing_else(const Arguments& arguments, const char* verb) {
  for (const auto* words : {&arguments.positional, &arguments.overrides})
    if (!words->empty())
      throw runtime::InputError(
          fmt::format("{} prints the whole language: \"{}\" is one argument too many", verb, words->front()));
}

}  // namespace

int schema_verb(const Arguments& arguments) {
  require_nothing_else(arguments, "schema");
  fmt::print("{}", spec::json_schema());
  return kFine;
}

int keys_verb(const Arguments& arguments) {
  require_nothing_else(arguments, "keys");
  fmt::print("{}", spec::keys_markdown());
  return kFine;
}

}  // namespace hydrac::cli
