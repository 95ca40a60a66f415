// Collectives of a program on a GPU, on its streams and timed by its stopwatch.
#include <cstddef>

#include "runtime/cuda/cuda_step_program.h"
#include "runtime/cuda/exchange/nccl_communicator.h"
#include "runtime/cuda/library.h"
#include "runtime/error.h"
#include "runtime/parallel/ranks.h"

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

void CudaStepProgram::run(const Collective& collective, std::span<const Elements> tensors,
                          const Stream& stream) const {
  if (collective.kind == Collective::own_part) return copy_own_parts(collective.group, tensors, stream);
  if (is_alone()) {
    before_call(stream.handle());
    return after_call(stream.handle());
  }
  if (!communicator_) throw RunError("a program of several ranks (parallel.data) runs in one process");
  // Collectives of ranks that share layers are not measured: a layer has many of them.
  const bool is_measured = collective.group == RankGroup::data && collective.reduction == Reduction::sum;
  const bool is_waited_for = &stream == &stream_ && is_measured;
  if (is_waited_for) waiting_->begin(stream);
  communicator_->run(collective, tensors, stream);
  if (is_waited_for) waiting_->end(stream);
}

void CudaStepProgram::copy_own_parts(RankGroup group, std::span<const Elements> tensors,
                                     const Stream& stream) const {
  before_call(stream.handle());
  for (const Elements& tensor : tensors) {
    const std::int64_t bytes = tensor.count * element_bytes(tensor.type);
    copy_on_device(tensor.to, static_cast<const std::byte*>(tensor.from) + ranks().rank(group) * bytes, bytes,
                   stream);
  }
  after_call(stream.handle());
}

void CudaStepProgram::await_sums() {
  if (waiting_) waiting_->begin(stream_);
  Event sums;
  sums.record(communication_);
  stream_.wait(sums);
  if (waiting_) waiting_->end(stream_);
}

}  // namespace hydrac::runtime::cuda
