// A Communicator for GPUs of one host that reach each other's memory. Copy engines move the data, and small
// kernels add it up in the order of ranks. So only these sums take multiprocessors from kernels that run at
// the same time, and they have the bits of sums on processors.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/exchange/communicator.h"
#include "runtime/cuda/exchange/exchange_schedule.h"
#include "runtime/cuda/exchange/peer_memory.h"
#include "runtime/cuda/stream.h"
#include "runtime/cuda/term_sums.h"

namespace hydrac::runtime::cuda {

class CopyCommunicator final : public Communicator {
 public:
  // Over all ranks, which are one data group of at most kMostRanks; why_no_peers() must be "". Every rank
  // calls it with its GPU's context current and its arena: memory of cuMemAlloc, with the same size and
  // layout on each. Nothing else may use `place` during its lifetime. RunError.
  CopyCommunicator(Ranks& ranks, DeviceRange arena, const ExchangePlace& place);

  // All tensors are in the arena, at the same place on every rank. Sums are in f32 and in the order of ranks:
  // 0 + rank 0's + rank 1's + ... std::logic_error for ranks that share layers.
  void run(const Collective& collective, std::span<const Elements> tensors,
           const Stream& stream) const override;
  std::string name() const override { return "copies between GPUs"; }

 private:
  class Queues;
  // The last exchange. Exchanges run one after another, because they use the same flags and buffer.
  struct Last {
    unsigned long long capture = 0;  // in which it was; 0: in none
    std::optional<Event> end;
  };

  // Puts a schedule on `stream` and on the streams of copies, between before_call() and after_call().
  void enqueue(const ExchangeSchedule& schedule, Reduction reduction, const Stream& stream) const;
  std::int64_t offset_of(const void* data) const;

  const Member member_;
  const DeviceRange arena_;
  const ExchangeBuffer buffer_;
  const std::int64_t flags_;  // offset of the flags
  PeerMemory peers_;
  TermSums sums_;
  std::vector<Stream> copies_;  // one for each peer
  mutable Last last_;
};

}  // namespace hydrac::runtime::cuda
