// Specs that tests write out as text.
#pragma once
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "diag/diagnostic.h"
#include "spec/load.h"

namespace hydrac::test {

// The spec of `text` and key=value overrides. std::runtime_error with the diagnostics where it has errors.
inline spec::Spec spec_of_text(const std::string& text, const std::vector<std::string>& overrides = {}) {
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = spec::load_spec_text("test.yaml", text, overrides, diagnostics);
  if (!spec) throw std::runtime_error(diagnostics.render());
  return *spec;
}

}  // namespace hydrac::test
