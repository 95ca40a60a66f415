// Prompts and completions for tests of objectives.
#pragma once
#include <string>

#include "tests/e2e/cli.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::e2e {

// pairs.jsonl: "after 7 comes " and "8", for 0 to 29.
inline void spill_pairs(const Workplace& place) {
  std::string lines;
  for (int i = 0; i < 30; ++i)
    lines += R"({"prompt": "after )" + std::to_string(i) + R"( comes ", "completion": ")" +
             std::to_string(i + 1) + "\"}\n";
  test::spill(place / "pairs.jsonl", lines);
}

}  // namespace hydrac::e2e
