#include "targets/cuda/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "driver/accesses.h"
#include "program/for_each_call.h"
#include "program/for_each_matmul.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/nvtx.h"
#include "runtime/cuda/tensor_map.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/after_call.h"

namespace hydrac::targets {

using program::Call;
namespace cuda = runtime::cuda;
namespace cudnn = runtime::cudnn;

namespace {

// The tensor maps of a kernel's first arguments.
std::vector<TensorMap> maps_of(const program::Kernel& kernel, const std::vector<void*>& arguments) {
  std::vector<TensorMap> maps;
  for (size_t i = 0; i < kernel.maps.size(); ++i) {
    const program::MatrixMap& map = kernel.maps[i];
    maps.push_back(
        cuda::tensor_map(map.dtype == ir::DType::bf16 ? cuda::MatrixType::bf16 : cuda::MatrixType::f16,
                         arguments[i], {map.rows, map.columns, map.box_rows, map.box_columns}));
  }
  return maps;
}

// The tensors that a sum over ranks is of, at `arguments`.
std::vector<cuda::Elements> elements_of(const ir::Graph& graph, const Call& call,
                                        const std::vector<void*>& arguments) {
  std::vector<cuda::Elements> tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ir::Value& tensor = graph.value(call.arguments[i]);
    tensors.push_back({arguments[i], element_count(tensor.shape), element_type(tensor.dtype)});
  }
  return tensors;
}

std::vector<cuda::SharedElements> shared_elements(const ir::Graph& graph, const Call& call,
                                                  const std::vector<void*>& arguments) {
  const auto address = [&](ir::Use use) {
    return arguments[static_cast<size_t>(std::ranges::find(call.arguments, use) - call.arguments.begin())];
  };
  std::vector<cuda::SharedElements> tensors;
  for (const auto& [whole, part] : shared_tensors(call)) {
    const ir::Value& tensor = graph.value(part);
    tensors.push_back(
        {address(whole), address(part), element_count(tensor.shape), element_type(tensor.dtype)});
  }
  return tensors;
}

// "block 3: gemm NT 16384x3072x768 for mlp.up", as a profiler shows it.
std::string range_name(const program::Program& program, const ResolvedCall& call) {
  const std::string of = call.call->kind == Call::Kind::gemm ? " for " + call.call->label : "";
  const std::string layer = call.section->layers > 0 ? fmt::format(" {}", call.layer) : "";
  return fmt::format("{}{}: {}{}", call.section->name, layer, name_of(program, *call.call), of);
}

}  // namespace

ResolvedCalls::ResolvedCalls(const driver::Compiled& compiled, cuda::DeviceRange arena, CudaMachine& machine,
                             const LoadedKernels& kernels, const Matmuls& matmuls, const cuda::Stream& stream,
                             Collectives collectives)
    : compiled_(compiled), machine_(machine), kernels_(kernels), collectives_(std::move(collectives)) {
  for (const program::Function& function : compiled.program.functions) {
    std::vector<ResolvedCall>& calls = functions_[function.name];
    for_each_call(function, [&](const program::Section& section, const Call& call, int iteration, int layer) {
      ResolvedCall resolved{.section = &section, .call = &call, .layer = section.first_layer + layer};
      resolved.accesses = driver::accesses(compiled, call, layer);
      for (const program::Access& access : resolved.accesses)
        resolved.arguments.push_back(arena.data + access.first);
      if (call.kind == Call::Kind::launch)
        resolved.maps = maps_of(compiled.program.kernels[call.kernel], resolved.arguments);
      if (call.kind == Call::Kind::gemm) resolved.matmul = &matmuls.at(shape_at(call.gemm, iteration));
      if (call.kind == Call::Kind::attention)
        resolved.attention = machine.attention_plan(call.attention, stream, arena);
      if (call.kind == Call::Kind::all_reduce || call.kind == Call::Kind::sum_over_ranks)
        resolved.reduced = elements_of(compiled.graph, call, resolved.arguments);
      if (call.has_parts()) resolved.shared = shared_elements(compiled.graph, call, resolved.arguments);
      calls.push_back(std::move(resolved));
    });
  }
}

void ResolvedCalls::enqueue(const ResolvedCall& call, const cuda::Stream& stream) const {
  const auto group = call.call->of_tensor ? runtime::RankGroup::tensor : runtime::RankGroup::data;
  std::optional<cuda::NvtxRange> range;
  if (cuda::nvtx_listens()) range.emplace(range_name(compiled_.program, call));
  switch (call.call->kind) {
    case Call::Kind::launch:
      return launch(call, stream);
    case Call::Kind::gemm:
      return multiply(call, stream);
    case Call::Kind::attention:
      return attend(call, stream);
    case Call::Kind::zero:
      runtime::before_call(stream.handle());
      cuda::fill_bytes(call.arguments[0], 0, call.accesses[0].last - call.accesses[0].first, stream);
      return runtime::after_call(stream.handle());
    case Call::Kind::all_reduce:
      return reduce(call, stream);
    case Call::Kind::copy:
      runtime::before_call(stream.handle());
      cuda::copy_anywhere(call.arguments[1], call.arguments[0],
                          call.accesses[0].last - call.accesses[0].first, stream);
      return runtime::after_call(stream.handle());
    case Call::Kind::reduce_scatter:
      return collectives_.reduce_scatter(call.shared, stream, group);
    case Call::Kind::all_gather:
      return collectives_.all_gather(call.shared, stream, group);
    case Call::Kind::own_part:
      return collectives_.own_part(call.shared, stream, group);
    case Call::Kind::sum_over_ranks:
      return collectives_.sum_over_ranks(call.reduced[0], call.arguments[1], stream);
  }
}

void ResolvedCalls::launch(const ResolvedCall& call, const cuda::Stream& stream) const {
  const program::Kernel& kernel = compiled_.program.kernels[call.call->kernel];
  std::vector<void*> parameters;
  for (const TensorMap& map : call.maps) parameters.push_back(const_cast<TensorMap*>(&map));
  for (size_t i = call.maps.size(); i < call.arguments.size(); ++i)
    parameters.push_back(const_cast<void**>(&call.arguments[i]));
  int layer = call.layer;
  if (kernel.takes_layer) parameters.push_back(&layer);
  device_code::LaunchShape shape;
  shape.grid.x = call.call->grid.blocks;
  shape.block.x = kernel.block.threads;
  shape.dynamic_shared_bytes = kernel.block.shared_bytes;
  shape.overlap_previous = kernel.waits_for_previous;
  device_code::launch(kernels_.kernels[call.call->kernel], shape, parameters.data(), stream);
}

void ResolvedCalls::multiply(const ResolvedCall& call, const cuda::Stream& stream) const {
  const std::vector<void*>& a = call.arguments;
  cuda::GemmArguments arguments;
  arguments.a = a[0];
  arguments.b = a[1];
  arguments.d = a[2];
  if (call.call->gemm.bias) arguments.bias = a[4];
  if (call.call->gemm.is_f8()) {
    arguments.a_scale = static_cast<const float*>(a[a.size() - 2]);
    arguments.b_scale = static_cast<const float*>(a[a.size() - 1]);
  }
  machine_.gemms().run(*call.matmul, arguments, stream, a[3]);
}

void ResolvedCalls::attend(const ResolvedCall& call, const cuda::Stream& stream) const {
  const std::vector<void*>& a = call.arguments;
  if (call.call->attention.backward) {
    const cudnn::BackwardPointers pointers{a[3], a[4], a[5], a[1], a[0], static_cast<const float*>(a[2]),
                                           a[6], a[7], a[8]};
    machine_.attention().run(*call.attention, pointers, a[9], stream);
  } else {
    const cudnn::ForwardPointers pointers{a[0], a[1], a[2], a[3], static_cast<float*>(a[4])};
    machine_.attention().run(*call.attention, pointers, a[5], stream);
  }
}

void ResolvedCalls::reduce(const ResolvedCall& call, const cuda::Stream& stream) const {
  collectives_.all_reduce(call.reduced, call.call->largest ? cuda::Reduction::max : cuda::Reduction::sum,
                          stream,
                          call.call->of_tensor ? runtime::RankGroup::tensor : runtime::RankGroup::data);
}

void ResolvedCalls::enqueue(const std::string& function, const Streams& streams) const {
  const std::vector<ResolvedCall>& calls = of(function);
  std::vector<program::BranchStep> branches;
  for (const ResolvedCall& call : calls) branches.push_back({call.accesses, call.call->branch});
  const std::vector<std::vector<int>> waits = program::waits_between_branches(branches);
  std::set<int> awaited;
  for (const std::vector<int>& of_call : waits) awaited.insert(of_call.begin(), of_call.end());
  std::map<int, cuda::Event> events;
  std::set<int> forked;
  const cuda::Stream& first = *streams[0];
  for (size_t i = 0; i < calls.size(); ++i) {
    const int branch = branches[i].branch;
    const cuda::Stream& own = *streams[static_cast<size_t>(branch)];
    if (branch > 0 && forked.insert(branch).second) {
      cuda::Event start;
      start.record(first);
      own.wait(start);
    }
    for (const int earlier : waits[i]) own.wait(events.at(earlier));
    enqueue(calls[i], own);
    if (awaited.contains(static_cast<int>(i))) events[static_cast<int>(i)].record(own);
  }
  for (const int branch : forked) {
    if (branch == program::kSumBranch) {
      collectives_.await_sums();
      continue;
    }
    cuda::Event end;
    end.record(*streams[static_cast<size_t>(branch)]);
    first.wait(end);
  }
}

}  // namespace hydrac::targets
