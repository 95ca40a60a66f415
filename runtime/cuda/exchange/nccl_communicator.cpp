#include "runtime/cuda/exchange/nccl_communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "runtime/cuda/library.h"
#include "runtime/error.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/after_call.h"

namespace hydrac::runtime::cuda {

namespace {

void check_nccl(abi::ncclResult_t result, const char* call) {
  if (result == abi::kNcclSuccess) return;
  const char* more = nccl().ncclGetLastError(nullptr);
  throw RunError(fmt::format("{}: {}{}\nNCCL_DEBUG=INFO in the environment makes NCCL say more", call,
                             nccl().ncclGetErrorString(result),
                             more != nullptr && *more != '\0' ? fmt::format(" ({})", more) : ""));
}

abi::ncclDataType_t type_of(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return abi::kNcclFloat32;
    case ElementType::f16:
      return abi::kNcclFloat16;
    case ElementType::bf16:
      return abi::kNcclBfloat16;
    default:
      throw std::logic_error("ranks sum no elements of 8 bits");
  }
}

// Rank 0's, on every rank.
abi::ncclUniqueId shared_id(Ranks& ranks) {
  abi::ncclUniqueId id{};
  if (ranks.leads()) check_nccl(nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::string shared = ranks.share({id.internal, sizeof id.internal});
  std::memcpy(id.internal, shared.data(), sizeof id.internal);
  return id;
}

}  // namespace

std::string nccl_version() {
  int version = 0;
  check_nccl(nccl().ncclGetVersion(&version), "ncclGetVersion");
  return fmt::format("NCCL {}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

NcclCommunicator::NcclCommunicator(Ranks& ranks)
    : rank_(ranks.rank(RankGroup::data)), size_(ranks.size(RankGroup::data)) {
  const abi::ncclUniqueId id = shared_id(ranks);
  check_nccl(nccl().ncclCommInitRank(&all_, ranks.size(), id, ranks.rank()), "ncclCommInitRank");
  const bool has_groups = ranks.size(RankGroup::data) > 1 && ranks.size(RankGroup::tensor) > 1;
  if (!has_groups) return;
  data_ = split(ranks, RankGroup::data);
  tensor_ = split(ranks, RankGroup::tensor);
}

// Ranks of one color form one group.
abi::ncclComm_t NcclCommunicator::split(Ranks& ranks, RankGroup group) const {
  const int color = ranks.rank(group == RankGroup::data ? RankGroup::tensor : RankGroup::data);
  abi::ncclComm_t part = nullptr;
  check_nccl(nccl().ncclCommSplit(all_, color, ranks.rank(group), &part, nullptr), "ncclCommSplit");
  return part;
}

abi::ncclComm_t NcclCommunicator::of(RankGroup group) const {
  const abi::ncclComm_t part = group == RankGroup::data ? data_ : tensor_;
  return part != nullptr ? part : all_;
}

// Not destroyed in order, which would wait for ranks that may be gone.
NcclCommunicator::~NcclCommunicator() {
  for (const abi::ncclComm_t communicator : {data_, tensor_, all_})
    if (communicator != nullptr) nccl().ncclCommAbort(communicator);
}

void NcclCommunicator::run(const Collective& collective, std::span<const Elements> tensors,
                           const Stream& stream) const {
  before_call(stream.handle());
  check_nccl(nccl().ncclGroupStart(), "ncclGroupStart");
  for (const Elements& tensor : tensors) enqueue(collective, tensor, stream);
  check_nccl(nccl().ncclGroupEnd(), "ncclGroupEnd");
  after_call(stream.handle());
}

void NcclCommunicator::enqueue(const Collective& collective, const Elements& tensor,
                               const Stream& stream) const {
  const auto count = static_cast<std::size_t>(tensor.count);
  const abi::ncclDataType_t type = type_of(tensor.type);
  const abi::ncclRedOp_t op = collective.reduction == Reduction::sum ? abi::kNcclSum : abi::kNcclMax;
  const abi::ncclComm_t group = of(collective.group);
  switch (collective.kind) {
    case Collective::all_reduce:
      return check_nccl(nccl().ncclAllReduce(tensor.from, tensor.to, count, type, op, group, stream.handle()),
                        "ncclAllReduce");
    case Collective::reduce_scatter:
      return check_nccl(
          nccl().ncclReduceScatter(tensor.from, tensor.to, count, type, op, group, stream.handle()),
          "ncclReduceScatter");
    case Collective::all_gather:
      return check_nccl(nccl().ncclAllGather(tensor.from, tensor.to, count, type, group, stream.handle()),
                        "ncclAllGather");
    case Collective::to_owners:
      clear_beyond_slots(tensor, rank_, size_, stream);
      return exchange(tensor, true, stream);
    case Collective::from_owners:
      return exchange(tensor, false, stream);
    case Collective::own_part:
      throw std::logic_error("a rank's own part is no exchange");
  }
}

void NcclCommunicator::exchange(const Elements& tensor, bool to_owners, const Stream& stream) const {
  const std::int64_t own = owned_slots(tensor.slots, size_),
                     bytes = tensor.count * element_bytes(tensor.type);
  const auto count = static_cast<std::size_t>(tensor.count);
  const abi::ncclDataType_t type = type_of(tensor.type);
  const abi::ncclComm_t all = of(RankGroup::data);
  const auto send = [&](std::int64_t block, std::int64_t peer) {
    check_nccl(nccl().ncclSend(static_cast<const std::byte*>(tensor.from) + block * bytes, count, type,
                               static_cast<int>(peer), all, stream.handle()),
               "ncclSend");
  };
  const auto receive = [&](std::int64_t block, std::int64_t peer) {
    check_nccl(nccl().ncclRecv(static_cast<std::byte*>(tensor.to) + block * bytes, count, type,
                               static_cast<int>(peer), all, stream.handle()),
               "ncclRecv");
  };
  for (std::int64_t slot = 0; slot < tensor.slots; ++slot) {
    const std::int64_t owner = slot / own;
    to_owners ? send(slot, owner) : receive(slot, owner);
    if (owner != rank_) continue;
    for (std::int64_t peer = 0; peer < size_; ++peer) {
      const std::int64_t block = (slot - owner * own) * size_ + peer;
      to_owners ? receive(block, peer) : send(block, peer);
    }
  }
}

}  // namespace hydrac::runtime::cuda
