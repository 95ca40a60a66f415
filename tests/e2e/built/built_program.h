// Programs that were emitted and built ahead of time, for tests to compare with hydrac.
#pragma once
#include <string>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {

// Runs a command of the shell in a folder; its output and errors, both as `out`, and its exit code.
Outcome shell(const fs::path& folder, const std::string& command);

// Builds the emitted program in `source` as program/build/train.
void build_emitted(const Workplace& place, const std::string& source);

// Emits base.yaml into program/ and builds program/build/train.
void build_program(const Workplace& place, const Words& overrides = {});

// That two runs' checkpoints of that name, and their logs, are equal.
void expect_equal_runs(const fs::path& a, const fs::path& b, const std::string& checkpoint,
                       const char* parameters = "model.safetensors");

}  // namespace hydrac::e2e
