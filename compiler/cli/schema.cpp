#include "spec/schema.h"

#include <fmt/format.h>

#include "cli/verb.h"

namespace hydrac::cli {

int schema_verb(const Arguments&) {
  fmt::print("{}", spec::json_schema());
  return kFine;
}

int keys_verb(const Arguments&) {
  fmt::print("{}", spec::keys_markdown());
  return kFine;
}

}  // namespace hydrac::cli
