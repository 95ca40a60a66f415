#include "runtime/cuda/exchange/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "runtime/cuda/device.h"
#include "runtime/cuda/exchange/copy_communicator.h"
#include "runtime/cuda/exchange/nccl_communicator.h"
#include "runtime/cuda/memory.h"
#include "runtime/error.h"
#include "runtime/parallel/ranks.h"
#include "runtime/parallel/world.h"
#include "runtime/program/layout.h"

namespace hydrac::runtime::cuda {

namespace {

// Refuses two ranks on one GPU, because NCCL would hang or report a duplicate GPU. GPUs of different hosts
// may have the same id. Returns every rank's GPU, by rank.
std::vector<std::string> require_own_gpus(Ranks& ranks, const std::string& gpu) {
  const std::vector<std::string> found = ranks.gather(gpu);
  std::vector<std::string> gpus = found;
  for (const Host& host : ranks.hosts())
    for (const int rank : host.ranks) gpus[static_cast<std::size_t>(rank)] += " of host " + host.text();
  std::map<std::string, std::size_t> owners;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    const auto [owner, is_new] = owners.try_emplace(gpus[rank], rank);
    if (!is_new)
      ranks.refuse_together(fmt::format(
          "ranks {} and {} have the same GPU ({}), and each needs one of its own: do not hide GPUs "
          "from them (CUDA_VISIBLE_DEVICES), or lower parallel.data or parallel.tensor",
          owner->second, rank, gpus[rank]));
  }
  return found;
}

}  // namespace

int gpu_of_this_process(int ranks) {
  const std::optional<World> world = world_of_environment();
  const int rank = world ? world->local_rank() : 0;
  const int count = static_cast<int>(devices().size());
  if (rank < count) return rank;
  if (count == 1) return 0;
  const bool is_of_many = world && world->host;
  throw InputError(
      fmt::format("{} ranks{} need as many GPUs, and CUDA sees {}: {}, or let CUDA_VISIBLE_DEVICES name more",
                  is_of_many ? world->local_size() : ranks, is_of_many ? " on this host" : "", count,
                  is_of_many ? "start fewer on each host" : "lower parallel.data or parallel.tensor"));
}

std::unique_ptr<Communicator> connect_gpus(Ranks& ranks, const std::string& gpu, DeviceRange arena,
                                           const ExchangePlace& exchange) {
  const std::vector<std::string> gpus = require_own_gpus(ranks, gpu);
  if (exchange.by == ExchangePlace::By::nccl) return std::make_unique<NcclCommunicator>(ranks);
  const std::string problem = why_no_peers(ranks, gpus);
  if (problem.empty()) return std::make_unique<CopyCommunicator>(ranks, arena, exchange);
  if (exchange.by == ExchangePlace::By::copies)
    ranks.refuse_together(
        fmt::format("parallel.exchange: copies is not possible: {}; write auto or nccl", problem));
  return std::make_unique<NcclCommunicator>(ranks);
}

void clear_beyond_slots(const Elements& tensor, int rank, int ranks, const Stream& stream) {
  const std::int64_t own = owned_slots(tensor.slots, ranks),
                     bytes = tensor.count * element_bytes(tensor.type);
  const std::int64_t there = std::clamp<std::int64_t>(tensor.slots - rank * own, 0, own);
  if (there < own)
    fill_bytes(static_cast<std::byte*>(tensor.to) + there * ranks * bytes, 0, (own - there) * ranks * bytes,
               stream);
}

}  // namespace hydrac::runtime::cuda
