// Sums over the GPUs of all ranks, and what they give each other, by NCCL. One process has one GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/cuda/abi/nccl.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/stream.h"

namespace hydrac::runtime {
class Ranks;
enum class RankGroup;
}  // namespace hydrac::runtime

namespace hydrac::runtime::cuda {

// Elements of the GPU's memory that lie side by side: f32, bf16 or f16.
struct Elements {
  void* data = nullptr;
  std::int64_t count = 0;
  ElementType type = ElementType::f32;
};

// Likewise, elements of which each rank has a part: of `count`, and in `whole` all parts stand in the order
// of ranks. Of several slots it has a part each, and `whole` those slots that it owns.
struct SharedElements {
  void* whole = nullptr;
  void* part = nullptr;
  std::int64_t count = 0;  // of a slot
  ElementType type = ElementType::f32;
  std::int64_t slots = 1;
};

enum class Reduction { sum, max };

// "NCCL 2.28.9". InputError that says what to install when it is not there.
std::string nccl_version();

// The GPU of this process, one of `ranks`, as CUDA counts GPUs: that of its number on this host, which its
// launcher or rank 0 gave it (where nobody did, it is rank 0), or the only one that it sees, which
// launchers choose for each rank. InputError where there are too few.
int gpu_of_this_process(int ranks);

class Communicator {
 public:
  // Of all ranks, and of the groups that they are in (RankGroup).
  // Every rank calls it, with its GPU's context current. InputError: NCCL is missing, or two ranks have one
  // GPU; RunError: NCCL cannot connect them. `gpu`: the GPU's PCI bus id.
  Communicator(Ranks& ranks, const std::string& gpu);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Puts on `stream` what makes each of the tensors the sum, or the largest values, of those of all ranks:
  // one kernel for all of them, in place. Every rank calls it with tensors of the same sizes and types, and
  // in the same order among other calls. A sum has the tensor's type, and the same bits on all ranks and at
  // every run on the same GPUs; of two ranks it is a + b, rounded once. May be called while a graph is
  // captured.
  void all_reduce(std::span<const Elements> tensors, Reduction reduction, const Stream& stream,
                  RankGroup group) const;
  // The sum of what the ranks that share layers have at `from`, at `to`.
  void sum(const Elements& from, void* to, const Stream& stream) const;
  // Likewise `part` becomes the rank's part of the sum of all ranks' `whole`,
  void reduce_scatter(std::span<const SharedElements> tensors, const Stream& stream, RankGroup group) const;
  // or `whole` the parts of all ranks.
  void all_gather(std::span<const SharedElements> tensors, const Stream& stream, RankGroup group) const;
  // Ranks::to_owners(): `whole` becomes the slots that this rank owns, and zeros beyond the last slot,
  void to_owners(std::span<const SharedElements> tensors, const Stream& stream) const;
  // or `part` the rank's parts of all slots.
  void from_owners(std::span<const SharedElements> tensors, const Stream& stream) const;

 private:
  // One kernel of the calls that `each` makes of the tensors.
  template <class Tensor, class Each>
  void in_one_group(std::span<const Tensor> tensors, const Stream& stream, const Each& each) const;

  // A slot's parts between its owner and all ranks, in the order of slots on both sides.
  void exchange(const SharedElements& tensor, bool to_owners, const Stream& stream) const;

  abi::ncclComm_t of(RankGroup group) const;
  abi::ncclComm_t split(Ranks& ranks, RankGroup group) const;

  const int rank_, size_;  // among those that share micro-batches
  abi::ncclComm_t all_ = nullptr;
  abi::ncclComm_t data_ = nullptr, tensor_ = nullptr;  // null where the group is all ranks, or this one alone
};

}  // namespace hydrac::runtime::cuda
