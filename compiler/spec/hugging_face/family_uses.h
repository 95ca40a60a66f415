// The uses of each family's models that the checks of a spec let pass.
#pragma once
#include <string>

namespace hydrac::spec {

// A table in Markdown, which docs/models.md has: a row a family.
std::string families_markdown();

}  // namespace hydrac::spec
