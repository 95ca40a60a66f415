#include "driver/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/cuda/exchange/exchange_schedule.h"
#include "runtime/log/units.h"
#include "targets/target.h"

namespace hydrac::driver {

namespace {

// "", or why NCCL carries numbers between GPUs.
std::string why_nccl(const Compiled& c) {
  const spec::Spec& spec = c.spec;
  if (spec.parallel.exchange == spec::Exchange::nccl) return "parallel.exchange is nccl";
  if (spec.parallel.tensor > 1) return "ranks share layers";
  if (spec.parallel.data > spec::kMostCopyingRanks)
    return fmt::format("there are more than {} ranks", spec::kMostCopyingRanks);
  if (std::ranges::any_of(c.graph.values, &ir::Value::on_host)) return "tensors are in the host's memory";
  // Measured on two and on four H100, see docs/performance.md.
  const bool hides_all = spec.parallel.data == 2 || spec.parallel.zero == 3;
  if (spec.parallel.exchange == spec::Exchange::auto_ && !hides_all)
    return "of more than two ranks it is the faster one, but for parallel.zero: 3";
  return "";
}

// The tensors that a call sums over ranks.
struct Summed {
  int64_t bytes = 0, tensors = 0;
};

Summed summed_by(const Compiled& c, const program::Call& call) {
  Summed summed;
  const auto count = [&](ir::Use use) {
    const ir::Value& value = c.graph.value(use);
    summed.bytes += element_count(value.shape) * size_of(value.dtype);
    ++summed.tensors;
  };
  const auto* collective = std::get_if<program::Collective>(&call.work);
  using Kind = program::Collective::Kind;
  if (collective && (collective->kind == Kind::all_reduce || collective->kind == Kind::reduce_scatter))
    for (const auto& tensor : collective->tensors(call.arguments)) count(tensor.from);
  return summed;
}

bool has_ranks(const Compiled& c) {
  return spec::rank_count(c.spec) > 1 && !targets::find(c.spec.target)->is_cpu();
}

}  // namespace

bool may_exchange_by_copies(const Compiled& c) {
  return has_ranks(c) && why_nccl(c).empty();
}

int64_t exchange_bytes(const Compiled& c) {
  if (!may_exchange_by_copies(c)) return 0;
  int64_t bytes = 0;
  for (const program::Function& function : c.program.functions) {
    for (const program::Section& section : function.sections) {
      for (const program::Call& call : section.calls) {
        const Summed summed = summed_by(c, call);
        if (summed.tensors == 0) continue;
        bytes = std::max(bytes, runtime::cuda::exchange_buffer_bytes(static_cast<int>(c.spec.parallel.data),
                                                                     summed.bytes, summed.tensors));
      }
    }
  }
  return runtime::cuda::kExchangeFlagBytes + bytes;
}

void explain_exchange(const Compiled& c, passes::Log& log) {
  if (!has_ranks(c)) return;
  const std::string why = why_nccl(c);
  if (!why.empty()) return log.push_back({"ranks", "NCCL carries numbers between GPUs: " + why});
  log.push_back(
      {"ranks", fmt::format("copy engines carry numbers between GPUs, and small kernels add them up in the "
                            "order of ranks; {} of memory for that{}",
                            runtime::human_bytes(static_cast<uint64_t>(exchange_bytes(c))),
                            c.spec.parallel.exchange == spec::Exchange::auto_
                                ? "; NCCL does where GPUs do not reach the memory of each other"
                                : "")});
}

}  // namespace hydrac::driver
