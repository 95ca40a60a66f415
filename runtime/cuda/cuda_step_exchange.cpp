// What a program on a GPU exchanges with other ranks, on its streams and measured by its stopwatch.
#include <cstddef>

#include "runtime/cuda/cuda_step_program.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/nccl_communicator.h"
#include "runtime/error.h"

namespace hydrac::runtime::cuda {

void CudaStepProgram::join(Ranks& ranks) {
  LaidOutProgram::join(ranks);
  communicator_ =
      connect_gpus(ranks, context_.device().pci_bus_id, {arena(), arena_bytes()}, layout().exchange);
  waiting_.emplace();
  if (graphs_in_use_) capture_graphs();
}

std::string CudaStepProgram::sums_by() const {
  if (communicator_) return communicator_->name();
  return layout().exchange.by == ExchangePlace::By::nccl ? nccl_version() : "";
}

void CudaStepProgram::all_reduce(std::span<const Elements> tensors, Reduction reduction, const Stream& stream,
                                 RankGroup group) const {
  together(stream, reduction == Reduction::sum && group == RankGroup::data,
           [&](const Communicator& all) { all.all_reduce(tensors, reduction, stream, group); });
}

// What ranks that share layers do is not measured: a layer has many of them.
void CudaStepProgram::sum_over_ranks(const Elements& from, void* to, const Stream& stream) const {
  together(stream, false, [&](const Communicator& all) { all.sum(from, to, stream); });
}

void CudaStepProgram::reduce_scatter(SharedTensors tensors, const Stream& stream, RankGroup group) const {
  together(stream, group == RankGroup::data,
           [&](const Communicator& all) { all.reduce_scatter(tensors, stream, group); });
}

void CudaStepProgram::all_gather(SharedTensors tensors, const Stream& stream, RankGroup group) const {
  together(stream, group == RankGroup::data,
           [&](const Communicator& all) { all.all_gather(tensors, stream, group); });
}

void CudaStepProgram::own_part(SharedTensors tensors, const Stream& stream, RankGroup group) const {
  before_call(stream.handle());
  for (const SharedElements& tensor : tensors) {
    const std::int64_t bytes = tensor.count * element_bytes(tensor.type);
    copy_on_device(tensor.part, static_cast<const std::byte*>(tensor.whole) + ranks().rank(group) * bytes,
                   bytes, stream);
  }
  after_call(stream.handle());
}

void CudaStepProgram::to_owners(SharedTensors tensors, const Stream& stream) const {
  together(stream, true, [&](const Communicator& all) { all.to_owners(tensors, stream); });
}

void CudaStepProgram::from_owners(SharedTensors tensors, const Stream& stream) const {
  together(stream, true, [&](const Communicator& all) { all.from_owners(tensors, stream); });
}

void CudaStepProgram::together(const Stream& stream, bool is_measured,
                               const std::function<void(const Communicator&)>& work) const {
  if (is_alone()) {
    before_call(stream.handle());
    return after_call(stream.handle());
  }
  if (!communicator_) throw RunError("a program of several ranks (parallel.data) runs in one process");
  const bool is_waited_for = &stream == &stream_ && is_measured;
  if (is_waited_for) waiting_->begin(stream);
  work(*communicator_);
  if (is_waited_for) waiting_->end(stream);
}

void CudaStepProgram::await_sums() {
  if (waiting_) waiting_->begin(stream_);
  Event sums;
  sums.record(communication_);
  stream_.wait(sums);
  if (waiting_) waiting_->end(stream_);
}

}  // namespace hydrac::runtime::cuda
