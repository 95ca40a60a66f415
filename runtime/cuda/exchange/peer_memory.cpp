#include "runtime/cuda/exchange/peer_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/cuda/device.h"
#include "runtime/cuda/library.h"
#include "runtime/error.h"
#include "runtime/parallel/ranks.h"

namespace hydrac::runtime::cuda {

namespace {

std::string why_not_from(int rank, const std::vector<std::string>& gpus) {
  const std::vector<DeviceInfo> seen = devices();
  abi::CUdevice own = 0;
  check(driver().cuCtxGetDevice(&own), "cuCtxGetDevice");
  for (std::size_t peer = 0; peer < gpus.size(); ++peer) {
    if (static_cast<int>(peer) == rank) continue;
    const auto found = std::ranges::find(seen, gpus[peer], &DeviceInfo::pci_bus_id);
    if (found == seen.end())
      return fmt::format("rank {} does not see the GPU of rank {} (CUDA_VISIBLE_DEVICES)", rank, peer);
    abi::CUdevice other = 0;
    int reaches = 0;
    check(driver().cuDeviceGet(&other, found->ordinal), "cuDeviceGet");
    check(driver().cuDeviceCanAccessPeer(&reaches, own, other), "cuDeviceCanAccessPeer");
    if (reaches == 0)
      return fmt::format("the GPU of rank {} cannot read the memory of rank {}'s", rank, peer);
  }
  return "";
}

}  // namespace

std::string why_no_peers(Ranks& ranks, const std::vector<std::string>& gpus) {
  if (ranks.hosts().size() > 1) return "the ranks are on several hosts";
  for (const std::string& problem : ranks.gather(why_not_from(ranks.rank(), gpus)))
    if (!problem.empty()) return problem;
  return "";
}

PeerMemory::PeerMemory(Ranks& ranks, DeviceRange arena)
    : rank_(ranks.rank()), arenas_(static_cast<std::size_t>(ranks.size())) {
  abi::CUipcMemHandle own{};
  check(driver().cuIpcGetMemHandle(&own, reinterpret_cast<abi::CUdeviceptr>(arena.data)),
        "parallel.exchange: nccl does without what fails here, cuIpcGetMemHandle of the arena");
  const std::vector<std::string> handles = ranks.gather({own.reserved, sizeof own.reserved});
  try {
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      if (rank == rank_) {
        arenas_[i] = arena.data;
        continue;
      }
      abi::CUipcMemHandle handle{};
      std::memcpy(handle.reserved, handles[i].data(), sizeof handle.reserved);
      abi::CUdeviceptr found = 0;
      check(driver().cuIpcOpenMemHandle_v2(&found, handle, abi::kIpcEnablePeerAccess),
            fmt::format("parallel.exchange: nccl does without what fails here, cuIpcOpenMemHandle of the "
                        "arena of rank {}",
                        rank));
      arenas_[i] = reinterpret_cast<std::byte*>(found);
    }
  } catch (...) {
    close();
    throw;
  }
}

PeerMemory::~PeerMemory() {
  close();
}

void PeerMemory::close() noexcept {
  for (std::size_t i = 0; i < arenas_.size(); ++i)
    if (static_cast<int>(i) != rank_ && arenas_[i] != nullptr)
      driver().cuIpcCloseMemHandle(reinterpret_cast<abi::CUdeviceptr>(arenas_[i]));
}

}  // namespace hydrac::runtime::cuda
