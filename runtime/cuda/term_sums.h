// Kernels that add up what ranks have sent each other, or take the largest numbers, in the order of ranks.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>

#include "runtime/cuda/abi/driver.h"
#include "runtime/cuda/exchange/communicator.h"
#include "runtime/cuda/gemm/gemm.h"
#include "runtime/cuda/stream.h"

namespace hydrac::runtime::cuda {

class TermSums {
 public:
  // Sums so many terms. Compiles its kernels. RunError.
  explicit TermSums(int terms);
  ~TermSums();
  TermSums(const TermSums&) = delete;
  TermSums& operator=(const TermSums&) = delete;

  // Puts on `stream`: to[i] = ((0 + terms[0][i]) + terms[1][i]) + ... in f32, rounded once to `type`, which
  // is f32, bf16 or f16; or the largest of them. `to` may be one of the terms. `count` > 0.
  void enqueue(std::span<const std::byte* const> terms, std::byte* to, std::int64_t count, ElementType type,
               Reduction reduction, const Stream& stream) const;

 private:
  // The last: a thread has 16 bytes of elements, not one.
  using Kind = std::tuple<ElementType, Reduction, bool>;

  int terms_;
  abi::CUmodule module_ = nullptr;
  std::map<Kind, abi::CUfunction> kernels_;
};

// The kernels' text, in PTX.
std::string term_sum_code(int terms);

}  // namespace hydrac::runtime::cuda
