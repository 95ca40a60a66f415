// Choices that a program measured or found on its machine and that decide how its results are rounded, such
// as the library for matmuls and the algorithm of each. A checkpoint records them, and a resumed run imports
// them before it measures, so that its results do not depend on a cache. A lock file (`hydrac tune`) does the
// same for the start of a run.
//
// A choice is text under a section and a key. The code that makes a choice also defines its keys: "blas"
// (runtime/cpu/gemm.h), "cublaslt" (runtime/cuda/gemm/gemm.h), "cudnn" (runtime/cudnn/attention.h), "kernels"
// (the cpu's C++ compiler), "sums" (over ranks).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::runtime {

class RecordedChoices {
 public:
  using Section = std::map<std::string, std::string>;

  void set(const std::string& section, const std::string& key, std::string value);
  // The sections of `other` replace those of the same name.
  void add(const RecordedChoices& other);

  std::optional<std::string> find(const std::string& section, const std::string& key) const;
  const std::map<std::string, Section>& sections() const { return sections_; }
  bool empty() const;

  // {"section": {"key": "value"}}, sorted, a key a line; ends with a newline.
  std::string to_json() const;
  // InputError; `label` is what errors call the file.
  static RecordedChoices from_json(std::string_view json, const std::string& label);

  bool operator==(const RecordedChoices& other) const;

 private:
  std::map<std::string, Section> sections_;
};

// A line for each choice that differs: "blas library: onednn in the checkpoint, openblas now", where `first`
// and `second` are "in the checkpoint" and "now".
std::vector<std::string> differences(const RecordedChoices& a, const RecordedChoices& b,
                                     std::string_view first = "in the checkpoint",
                                     std::string_view second = "now");

}  // namespace hydrac::runtime
