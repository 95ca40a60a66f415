// The arenas of the other ranks on this host, as this rank's GPU reads and writes them.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/cuda/gemm/gemm.h"

namespace hydrac::runtime {
class Ranks;
}

namespace hydrac::runtime::cuda {

// "", or why some rank's GPU cannot access the memory of all others: the same text on every rank. Each calls
// it with its GPU's context current. `gpus`: PCI bus ids, by rank.
std::string why_no_peers(Ranks& ranks, const std::vector<std::string>& gpus);

class PeerMemory {
 public:
  // Maps all ranks' arenas; why_no_peers() must be "". `arena` is memory of cuMemAlloc, of the same size on
  // each rank. RunError.
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
