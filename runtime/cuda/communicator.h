// Sums over the GPUs of all ranks, and what they give each other. One process has one GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/cuda/gemm.h"
#include "runtime/cuda/stream.h"

namespace hydrac::runtime {
class Ranks;
enum class RankGroup;
struct ExchangePlace;
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

// The GPU of this process, one of `ranks`, as CUDA counts GPUs: that of its number on this host, which its
// launcher or rank 0 gave it (where nobody did, it is rank 0), or the only one that it sees, which
// launchers choose for each rank. InputError where there are too few.
int gpu_of_this_process(int ranks);

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Puts on `stream` what makes each of the tensors the sum, or the largest values, of those of all ranks, in
  // place. Every rank calls it with tensors of the same sizes and types, and in the same order among other
  // calls. A sum has the tensor's type, and the same bits on all ranks and at every run on the same GPUs; of
  // two ranks it is a + b, rounded once. May be called while a graph is captured.
  virtual void all_reduce(std::span<const Elements> tensors, Reduction reduction, const Stream& stream,
                          RankGroup group) const = 0;
  // The sum of what the ranks that share layers have at `from`, at `to`.
  virtual void sum(const Elements& from, void* to, const Stream& stream) const = 0;
  // Likewise `part` becomes the rank's part of the sum of all ranks' `whole`,
  virtual void reduce_scatter(std::span<const SharedElements> tensors, const Stream& stream,
                              RankGroup group) const = 0;
  // or `whole` the parts of all ranks.
  virtual void all_gather(std::span<const SharedElements> tensors, const Stream& stream,
                          RankGroup group) const = 0;
  // Ranks::to_owners(): `whole` becomes the slots that this rank owns, and zeros beyond the last slot,
  virtual void to_owners(std::span<const SharedElements> tensors, const Stream& stream) const = 0;
  // or `part` the rank's parts of all slots.
  virtual void from_owners(std::span<const SharedElements> tensors, const Stream& stream) const = 0;

  // What computes the sums, which decides their bits: "NCCL 2.28.9", "copies between GPUs".
  virtual std::string name() const = 0;

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
};

// Connects the GPUs of all ranks, each of which calls it with its GPU's context current, its arena and where
// the plan says that numbers are exchanged. By copies where they are asked for or, unless NCCL is, where they
// can be. `gpu`: the GPU's PCI bus id. InputError: two ranks have one GPU, copies are asked for and cannot be
// made, NCCL is needed and missing; RunError: the GPUs cannot be connected.
std::unique_ptr<Communicator> connect_gpus(Ranks& ranks, const std::string& gpu, DeviceRange arena,
                                           const ExchangePlace& exchange);

// Makes 0 of what to_owners() leaves of `whole` beyond the last slot.
void clear_beyond_slots(const SharedElements& tensor, int rank, int ranks, const Stream& stream);

}  // namespace hydrac::runtime::cuda
