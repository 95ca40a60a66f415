// The arenas of the other ranks on this host, as this rank's GPU reads and writes them.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/cuda/gemm.h"

namespace hydrac::runtime {
class Ranks;
}

namespace hydrac::runtime::cuda {

// "", or why some rank's GPU cannot read and write the memory of all others: the same on every rank, each of
// which calls it with its GPU's context current. `gpus`: PCI bus ids, by rank.
std::string why_no_peers(Ranks& ranks, const std::vector<std::string>& gpus);

class PeerMemory {
 public:
  // Maps all ranks' arenas, where why_no_peers() is "". `arena` is memory that cuMemAlloc gave; each rank's
  // has as many bytes. RunError.
  PeerMemory(Ranks& ranks, DeviceRange arena);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  std::byte* arena(int rank) const { return arenas_[static_cast<std::size_t>(rank)]; }

 private:
  void close() noexcept;

  int rank_;
  std::vector<std::byte*> arenas_;  // by rank; null where it is not mapped yet
};

}  // namespace hydrac::runtime::cuda
