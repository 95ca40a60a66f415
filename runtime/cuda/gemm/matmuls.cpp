#include "runtime/cuda/gemm/matmuls.h"

#include <stdexcept>

namespace hydrac::runtime::cuda {

void Matmuls::plan(GemmProblem problem) {
  problem.tf32 = tf32_;
  const std::string key = problem.text();
  if (planned_.contains(key)) return;
  const bool searches = !library_.remembers(problem);
  const bool fits = library_.scratch_bytes(problem) <= scratch_.bytes;
  planned_.emplace(key, library_.plan(problem, stream_, searches && fits ? scratch_ : DeviceRange{}));
}

void Matmuls::run(const GemmProblem& problem, const GemmArguments& arguments, const Stream& stream,
                  void* workspace) const {
  GemmProblem wanted = problem;
  wanted.tf32 = tf32_;
  const auto found = planned_.find(wanted.text());
  if (found == planned_.end()) throw std::logic_error("the matmul " + wanted.text() + " was not planned");
  library_.run(found->second, arguments, stream, workspace);
}

}  // namespace hydrac::runtime::cuda
