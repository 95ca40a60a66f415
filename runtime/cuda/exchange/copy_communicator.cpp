#include "runtime/cuda/exchange/copy_communicator.h"

#include <cstddef>
#include <stdexcept>

#include "runtime/cuda/library.h"
#include "runtime/cuda/memory.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/after_call.h"
#include "runtime/program/layout.h"

namespace hydrac::runtime::cuda {

namespace {

ExchangeBuffer buffer_of(const ExchangePlace& place) {
  return {place.offset + kExchangeFlagBytes, place.bytes - kExchangeFlagBytes};
}

// The offset of rank `of`'s flag from the start of the flags.
std::int64_t place_of(int of, ExchangeFlag flag) {
  return (2 * of + (flag == ExchangeFlag::done ? 1 : 0)) * static_cast<std::int64_t>(sizeof(unsigned));
}

// The id of the graph that is being captured from the stream; 0 if none is.
unsigned long long capture_of(const Stream& stream) {
  int status = 0;
  unsigned long long id = 0;
  check(driver().cuStreamGetCaptureInfo_v2(stream.handle(), &status, &id, nullptr, nullptr, nullptr),
        "cuStreamGetCaptureInfo");
  return status == abi::kCaptureActive ? id : 0;
}

abi::CUstreamBatchMemOpParams memory_operation(int kind, const std::byte* flag, unsigned value) {
  abi::CUstreamBatchMemOpParams operation{};
  operation.flag.operation = kind;
  operation.flag.address = reinterpret_cast<abi::CUdeviceptr>(flag);
  operation.flag.value = value;
  operation.flag.flags = kind == abi::kMemoryWait32 ? abi::kWaitForEqual : abi::kWriteAfterAll;
  return operation;
}

void put_operations(std::span<abi::CUstreamBatchMemOpParams> operations, const Stream& stream) {
  check(driver().cuStreamBatchMemOp_v2(stream.handle(), static_cast<unsigned>(operations.size()),
                                       operations.data(), 0),
        "cuStreamBatchMemOp");
}

}  // namespace

// Carries out schedules on streams. Flags are words of 32 bits, 0 or 1: a graph's operations have constants.
class CopyCommunicator::Queues final : public ExchangeQueues {
 public:
  Queues(const CopyCommunicator& all, Reduction reduction, const Stream& stream)
      : all_(all), reduction_(reduction), stream_(stream) {}

  void tell(int queue, int peer, ExchangeFlag flag) override {
    const std::byte* there = all_.peers_.arena(peer) + all_.flags_ + place_of(all_.member_.rank, flag);
    abi::CUstreamBatchMemOpParams operations[] = {memory_operation(abi::kMemoryWrite32, there, 1)};
    put_operations(operations, stream_of(queue));
  }

  void await(int queue, int peer, ExchangeFlag flag) override {
    const std::byte* here = all_.arena_.data + all_.flags_ + place_of(peer, flag);
    abi::CUstreamBatchMemOpParams operations[] = {memory_operation(abi::kMemoryWait32, here, 1),
                                                  memory_operation(abi::kMemoryWrite32, here, 0)};
    put_operations(operations, stream_of(queue));
  }

  void copy(int queue, int peer, const ExchangeCopy& copy) override {
    copy_on_device(all_.arena_.data + copy.to, all_.peers_.arena(peer) + copy.from, copy.bytes,
                   stream_of(queue));
  }

  void sum(const ExchangeSum& sum) override {
    std::vector<const std::byte*> terms;
    for (const std::int64_t term : sum.terms) terms.push_back(all_.arena_.data + term);
    all_.sums_.enqueue(terms, all_.arena_.data + sum.to, sum.count, sum.type, reduction_, stream_);
  }

  int mark(int queue) override {
    marks_.emplace_back().record(stream_of(queue));
    return static_cast<int>(marks_.size()) - 1;
  }

  void wait(int queue, int mark) override {
    stream_of(queue).wait(marks_.at(static_cast<std::size_t>(mark)));
  }

 private:
  const Stream& stream_of(int queue) const {
    return queue == 0 ? stream_ : all_.copies_.at(static_cast<std::size_t>(queue) - 1);
  }

  const CopyCommunicator& all_;
  Reduction reduction_;
  const Stream& stream_;
  std::vector<Event> marks_;
};

CopyCommunicator::CopyCommunicator(Ranks& ranks, DeviceRange arena, const ExchangePlace& place)
    : member_{ranks.rank(), ranks.size()},
      arena_(arena),
      buffer_(buffer_of(place)),
      flags_(place.offset),
      peers_(ranks, arena),
      sums_(ranks.size()),
      copies_(static_cast<std::size_t>(ranks.size() - 1)) {
  const Stream stream;
  fill_bytes(arena.data + flags_, 0, kExchangeFlagBytes, stream);
  stream.synchronize();
  ranks.any(false);  // nobody sets a flag before
}

void CopyCommunicator::run(const Collective& collective, std::span<const Elements> tensors,
                           const Stream& stream) const {
  if (collective.group != RankGroup::data)
    throw std::logic_error("copies are not for ranks that share layers");
  std::vector<ArenaElements> places;
  for (const Elements& tensor : tensors) {
    if (collective.kind == Collective::to_owners)
      clear_beyond_slots(tensor, member_.rank, member_.size, stream);
    places.push_back({offset_of(tensor.from), offset_of(tensor.to), tensor.count, tensor.type, tensor.slots});
  }
  enqueue(schedule(collective, member_, places, buffer_), collective.reduction, stream);
}

void CopyCommunicator::enqueue(const ExchangeSchedule& schedule, Reduction reduction,
                               const Stream& stream) const {
  before_call(stream.handle());
  const unsigned long long capture = capture_of(stream);
  if (last_.end && last_.capture == capture) stream.wait(*last_.end);
  Queues queues(*this, reduction, stream);
  carry_out(schedule, member_, queues);
  last_.capture = capture;
  last_.end.emplace().record(stream);
  after_call(stream.handle());
}

std::int64_t CopyCommunicator::offset_of(const void* data) const {
  return static_cast<const std::byte*>(data) - arena_.data;
}

}  // namespace hydrac::runtime::cuda
