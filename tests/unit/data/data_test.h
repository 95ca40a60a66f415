// What the data tests share: a scratch folder, and the message of an expected InputError.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/unit/support/source_dir.h"

#include "runtime/error.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {

// A folder that lives as long as the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hydrac-data-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// The message of the InputError that `action` throws; fails the test when it throws none.
template <typename Action>
std::string input_error(Action&& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no InputError was thrown";
  return "";
}

inline std::filesystem::path test_file(const std::string& name) {
  return std::filesystem::path(hydrac::test::source_dir()) / "tests/unit/data/files" / name;
}

// A file of the shared data, which lies beside the checkout where there is one.
inline std::filesystem::path shared_file(const std::string& name) {
  return std::filesystem::path(hydrac::test::source_dir()) / "../shared/data" / name;
}

// Ends the test as skipped, and says so, when the shared file is missing.
#define NEEDS_SHARED_FILE(name)                                                                         \
  if (!std::filesystem::exists(shared_file(name))) {                                                    \
    std::fprintf(stderr, "SKIPPED: ../shared/data/%s is missing; exactness against it is NOT tested\n", \
                 name);                                                                                 \
    GTEST_SKIP() << "../shared/data/" << name << " is missing";                                         \
  }

// Qwen's small tokenizer with one token for two line ends, as the large one has it.
inline std::unique_ptr<Tokenizer> tokenizer_with_line_ends() {
  nlohmann::json file = nlohmann::json::parse(read_text(test_file("qwen2.tokenizer.json")));
  file["model"]["vocab"]["ĊĊ"] = 705;
  file["model"]["merges"].push_back({"Ċ", "Ċ"});
  return parse_tokenizer(file.dump(), "qwen2");
}

}  // namespace hydrac::runtime
