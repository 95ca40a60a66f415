// What the spec tests share: a small valid spec to vary, and loading from text.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/support/source_dir.h"

#include "spec/load.h"

namespace hydrac::spec {

struct Loaded {
  std::optional<Spec> spec;
  diag::Diagnostics diagnostics;

  std::string text() const { return diagnostics.render(); }
};

inline Loaded load(const std::string& text, const std::vector<std::string>& overrides = {},
                   const std::string& file = "spec.yaml") {
  Loaded loaded;
  loaded.spec = load_spec_text(file, text, overrides, loaded.diagnostics);
  return loaded;
}

// The spec of a text that must be fine, without even a warning.
inline Spec good(const std::string& text, const std::vector<std::string>& overrides = {},
                 const std::string& file = "spec.yaml") {
  Loaded loaded = load(text, overrides, file);
  EXPECT_EQ(loaded.text(), "");
  return loaded.spec ? *loaded.spec : Spec{};
}

inline const std::string kSmall =
    "name: small\n"
    "model:\n"
    "  hidden_size: 128\n"
    "  num_hidden_layers: 2\n"
    "  num_attention_heads: 2\n"
    "data: {path: corpus.txt}\n"
    "train: {sequence_len: 64, micro_batch_size: 4, max_steps: 100}\n";

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::filesystem::path source_dir() {
  return hydrac::test::source_dir();
}

// A folder of its own for a test, gone afterwards.
class Folder {
 public:
  Folder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("hydrac-") + test->test_suite_name() + "-" + test->name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  std::string write(const std::string& name, const std::string& text) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace hydrac::spec
