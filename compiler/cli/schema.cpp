#include "spec/keys/schema.h"

#include <fmt/format.h>

#include "cli/verb.h"
#include "runtime/error.h"
#include "spec/reader/bind.h"

namespace hydrac::cli {

int schema_verb(const Arguments& arguments) {
  for (const auto* words : {&arguments.positional, &arguments.overrides})
    if (!words->empty())
      throw runtime::InputError(
          fmt::format("schema prints the whole language: \"{}\" is one argument too many", words->front()));
  fmt::print("{}", spec::json_schema());
  return kFine;
}

int keys_verb(const Arguments& arguments) {
  if (!arguments.overrides.empty())
    throw runtime::InputError(
        fmt::format("keys takes names of keys, and {} gives one a value", arguments.overrides[0]));
  if (arguments.positional.empty()) fmt::print("{}", spec::keys_markdown());
  for (const std::string& name : arguments.positional) {
    const std::string help = spec::key_help(name);
    if (help.empty())
      throw runtime::InputError(fmt::format("there is no key {}: {}", name, spec::meant_key(name)));
    fmt::print("{}", help);
  }
  return kFine;
}

}  // namespace hydrac::cli
