// The fastest algorithm of each matmul: a map that outlives the process in a sealed file of lines
// "KEY<tab>ALGORITHM WORKSPACE MS CANDIDATES". Several processes may share the file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/cache/choice_file.h"
#include "runtime/cuda/abi/cublaslt.h"

namespace hydrac::runtime::cuda {

struct GemmChoice {
  abi::cublasLtMatmulAlgo_t algorithm = {};
  std::int64_t workspace_bytes = 0;
  double ms = 0;
  int candidates = 0;  // that it was the best of
};

// "0123..ef 1024 0.4125 17": the algorithm as 128 hexadecimal digits.
std::string to_text(const GemmChoice& choice);
std::optional<GemmChoice> parse_choice(std::string_view text);

// The same without the time, which is another in each search: what a checkpoint records.
std::string recorded_text(const GemmChoice& choice);
std::optional<GemmChoice> parse_recorded(std::string_view text);

// "algorithm 66, tile 184, cluster 3, stages 35, split-k 1, swizzle 0, 0 B workspace, 0.4120 ms, best of 57":
// numbers of cublasLt.h's enumerations.
std::string describe(const GemmChoice& choice);

class GemmChoices {
 public:
  // An empty path: remembers in memory only.
  explicit GemmChoices(std::filesystem::path file) : file_(std::move(file)) {}

  std::optional<GemmChoice> find(const std::string& key) const;
  // Adds or replaces; lines that other processes wrote meanwhile stay. A file that cannot be written is no
  // error: it only costs another search.
  void remember(const std::string& key, const GemmChoice& choice);

 private:
  ChoiceFile file_;
};

}  // namespace hydrac::runtime::cuda
