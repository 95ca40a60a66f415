// A Communicator by NCCL.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "runtime/cuda/abi/nccl.h"
#include "runtime/cuda/exchange/communicator.h"

namespace hydrac::runtime::cuda {

// "NCCL 2.28.9". InputError that says what to install when it is not there.
std::string nccl_version();

class NcclCommunicator final : public Communicator {
 public:
  // Over all ranks and the groups they are in (RankGroup). Every rank calls it with its own GPU's context
  // current. InputError: NCCL is missing; RunError: it cannot connect them.
  explicit NcclCommunicator(Ranks& ranks);
  ~NcclCommunicator() override;

  // One kernel for all tensors.
  void run(const Collective& collective, std::span<const Elements> tensors,
           const Stream& stream) const override;
  std::string name() const override { return nccl_version(); }

 private:
  void enqueue(const Collective& collective, const Elements& tensor, const Stream& stream) const;
  // A slot's parts between its owner and all ranks, in the order of slots on both sides.
  void exchange(const Elements& tensor, bool to_owners, const Stream& stream) const;

  abi::ncclComm_t of(RankGroup group) const;
  abi::ncclComm_t split(Ranks& ranks, RankGroup group) const;

  const int rank_, size_;  // among those that share micro-batches
  abi::ncclComm_t all_ = nullptr;
  abi::ncclComm_t data_ = nullptr, tensor_ = nullptr;  // null where the group is all ranks, or this one alone
};

}  // namespace hydrac::runtime::cuda
