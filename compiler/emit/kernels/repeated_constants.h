// Constants that several kernels of one file would each define.
#pragma once
#include <map>
#include <string>

namespace hydrac::emit {

// Takes the definitions of a file's kernels in their order. A definition of several lines in the namespace of
// a kernel's constants, which an earlier kernel's has word for word, becomes a using-declaration of that.
class RepeatedConstants {
 public:
  // `text` has the constants of `kernel` in namespace <kernel>_sizes, or none.
  std::string take(const std::string& kernel, const std::string& text);

 private:
  std::map<std::string, std::string>
      names_;  // of each definition, "embedding_gradient_runs_sizes::kGradient"
};

}  // namespace hydrac::emit
