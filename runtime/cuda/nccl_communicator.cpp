#include "runtime/cuda/nccl_communicator.h"

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

// Those of one color are one group.
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

void NcclCommunicator::all_reduce(std::span<const Elements> tensors, Reduction reduction,
                                  const Stream& stream, RankGroup group) const {
  const abi::ncclRedOp_t op = reduction == Reduction::sum ? abi::kNcclSum : abi::kNcclMax;
  in_one_group(tensors, stream, [&](const Elements& tensor) {
    check_nccl(nccl().ncclAllReduce(tensor.data, tensor.data, static_cast<std::size_t>(tensor.count),
                                    type_of(tensor.type), op, of(group), stream.handle()),
               "ncclAllReduce");
  });
}

void NcclCommunicator::reduce_scatter(std::span<const SharedElements> tensors, const Stream& stream,
                                      RankGroup group) const {
  in_one_group(tensors, stream, [&](const SharedElements& tensor) {
    check_nccl(nccl().ncclReduceScatter(tensor.whole, tensor.part, static_cast<std::size_t>(tensor.count),
                                        type_of(tensor.type), abi::kNcclSum, of(group), stream.handle()),
               "ncclReduceScatter");
  });
}

void NcclCommunicator::sum(const Elements& from, void* to, const Stream& stream) const {
  in_one_group(std::span(&from, 1), stream, [&](const Elements& tensor) {
    check_nccl(
        nccl().ncclAllReduce(tensor.data, to, static_cast<std::size_t>(tensor.count), type_of(tensor.type),
                             abi::kNcclSum, of(RankGroup::tensor), stream.handle()),
        "ncclAllReduce");
  });
}

void NcclCommunicator::all_gather(std::span<const SharedElements> tensors, const Stream& stream,
                                  RankGroup group) const {
  in_one_group(tensors, stream, [&](const SharedElements& tensor) {
    check_nccl(nccl().ncclAllGather(tensor.part, tensor.whole, static_cast<std::size_t>(tensor.count),
                                    type_of(tensor.type), of(group), stream.handle()),
               "ncclAllGather");
  });
}

void NcclCommunicator::to_owners(std::span<const SharedElements> tensors, const Stream& stream) const {
  in_one_group(tensors, stream, [&](const SharedElements& tensor) {
    clear_beyond_slots(tensor, rank_, size_, stream);
    exchange(tensor, true, stream);
  });
}

void NcclCommunicator::from_owners(std::span<const SharedElements> tensors, const Stream& stream) const {
  in_one_group(tensors, stream, [&](const SharedElements& tensor) { exchange(tensor, false, stream); });
}

void NcclCommunicator::exchange(const SharedElements& tensor, bool to_owners, const Stream& stream) const {
  const std::int64_t own = owned_slots(tensor.slots, size_),
                     bytes = tensor.count * element_bytes(tensor.type);
  const auto move = [&](void* block, std::int64_t to_block, std::int64_t peer, bool sends) {
    void* at = static_cast<std::byte*>(block) + to_block * bytes;
    const auto count = static_cast<std::size_t>(tensor.count);
    const int rank = static_cast<int>(peer);
    const abi::ncclDataType_t type = type_of(tensor.type);
    const abi::ncclComm_t all = of(RankGroup::data);
    if (sends)
      check_nccl(nccl().ncclSend(at, count, type, rank, all, stream.handle()), "ncclSend");
    else
      check_nccl(nccl().ncclRecv(at, count, type, rank, all, stream.handle()), "ncclRecv");
  };
  for (std::int64_t slot = 0; slot < tensor.slots; ++slot) {
    const std::int64_t owner = slot / own;
    move(tensor.part, slot, owner, to_owners);
    if (owner != rank_) continue;
    for (std::int64_t peer = 0; peer < size_; ++peer)
      move(tensor.whole, (slot - owner * own) * size_ + peer, peer, !to_owners);
  }
}

template <class Tensor, class Each>
void NcclCommunicator::in_one_group(std::span<const Tensor> tensors, const Stream& stream,
                                    const Each& each) const {
  before_call(stream.handle());
  check_nccl(nccl().ncclGroupStart(), "ncclGroupStart");
  for (const Tensor& tensor : tensors) each(tensor);
  check_nccl(nccl().ncclGroupEnd(), "ncclGroupEnd");
  after_call(stream.handle());
}

}  // namespace hydrac::runtime::cuda
