// Collectives of the GPUs of all ranks. One process has one GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/cuda/gemm/gemm.h"
#include "runtime/cuda/stream.h"
#include "runtime/parallel/collective.h"

namespace hydrac::runtime {
class Ranks;
struct ExchangePlace;
}  // namespace hydrac::runtime

namespace hydrac::runtime::cuda {

// A tensor of a collective in the GPU's memory, as SharedFloats: f32, bf16 or f16.
struct Elements {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t count = 0;
  ElementType type = ElementType::f32;
  std::int64_t slots = 1;
};

// The CUDA device number of this process, one of `ranks`. It is the process's number on this host, from its
// launcher or from rank 0 (without either it is rank 0), or the only GPU that its launcher lets it see.
// InputError if there are too few GPUs.
int gpu_of_this_process(int ranks);

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Enqueues a collective other than Collective::own_part on `stream`. Every rank of the group calls it with
  // tensors of the same sizes and types, and in the same order among other calls. A sum has the tensor's
  // type, and the same bits on all ranks and at every run on the same GPUs; with two ranks it is a + b,
  // rounded once. May be called during graph capture.
  virtual void run(const Collective& collective, std::span<const Elements> tensors,
                   const Stream& stream) const = 0;

  // The library or method that computes the sums, which decides their bits: "NCCL 2.28.9", "copies between
  // GPUs".
  virtual std::string name() const = 0;

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
};

// Connects the GPUs of all ranks. Each calls it with its GPU's context current, its arena, and the plan's
// place for exchanges. Uses copies if they are asked for, or if they are possible and NCCL is not asked for.
// `gpu`: the GPU's PCI bus id. InputError: two ranks have one GPU, copies are asked for and impossible, NCCL
// is needed and missing; RunError: the GPUs cannot be connected.
std::unique_ptr<Communicator> connect_gpus(Ranks& ranks, const std::string& gpu, DeviceRange arena,
                                           const ExchangePlace& exchange);

// Zeroes the part of `to` that Collective::to_owners leaves beyond the last slot.
void clear_beyond_slots(const Elements& tensor, int rank, int ranks, const Stream& stream);

}  // namespace hydrac::runtime::cuda
