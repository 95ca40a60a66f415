#include "targets/cuda/calls.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>

#include "cuda/tensor_map.h"
#include "driver/accesses.h"
#include "program/for_each_call.h"
#include "program/for_each_matmul.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/nvtx.h"
#include "runtime/cuda/tensor_map.h"
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

// "block 3: gemm NT 16384x3072x768 for mlp.up", as a profiler shows it.
std::string range_name(const program::Program& program, const ResolvedCall& call) {
  const std::string of = program::is<program::Gemm>(*call.call) ? " for " + call.call->label : "";
  const std::string layer = call.section->layers > 0 ? fmt::format(" {}", call.layer) : "";
  return fmt::format("{}{}: {}{}", call.section->name, layer, name_of(program, *call.call), of);
}

}  // namespace

ResolvedCalls::ResolvedCalls(const driver::Compiled& compiled, cuda::DeviceRange arena, CudaMachine& machine,
                             const LoadedKernels& kernels, const Matmuls& matmuls, const cuda::Stream& stream,
                             Ranks ranks)
    : compiled_(compiled), machine_(machine), kernels_(kernels), ranks_(std::move(ranks)) {
  for (const program::Function& function : compiled.program.functions) {
    std::vector<ResolvedCall>& calls = functions_[function.name];
    for_each_call(function, [&](const program::Section& section, const Call& call, int iteration, int layer) {
      ResolvedCall resolved{.section = &section, .call = &call, .layer = section.first_layer + layer};
      resolved.accesses = driver::accesses(compiled, call, layer);
      if (const auto* gemm = std::get_if<program::Gemm>(&call.work))
        resolved.matmul = &matmuls.at(shape_at(gemm->shape, iteration));
      resolved.enqueue = resolve(resolved, arena, stream);
      calls.push_back(std::move(resolved));
    });
  }
}

ResolvedCalls::Enqueue ResolvedCalls::resolve(const ResolvedCall& resolved, cuda::DeviceRange arena,
                                              const cuda::Stream& stream) const {
  const Call& call = *resolved.call;
  std::vector<void*> arguments;
  for (const program::Access& access : resolved.accesses) arguments.push_back(arena.data + access.first);
  const auto bytes = [&] { return resolved.accesses.at(0).last - resolved.accesses.at(0).first; };
  const program::Overloaded enqueue{
      [&](const program::Launch& work) { return launch(work, arguments, resolved.layer); },
      [&](const program::Gemm& work) { return multiply(work, *resolved.matmul, arguments); },
      [&](const program::Attention& work) {
        return attend(work, machine_.attention_plan(work.shape, stream, arena), arguments);
      },
      [&](const program::Zero&) -> Enqueue {
        return [to = arguments.at(0), count = bytes()](const cuda::Stream& on) {
          runtime::before_call(on.handle());
          cuda::fill_bytes(to, 0, count, on);
          runtime::after_call(on.handle());
        };
      },
      [&](const program::Copy& work) -> Enqueue {
        return [tensors = work.tensors(arguments), count = bytes()](const cuda::Stream& on) {
          runtime::before_call(on.handle());
          cuda::copy_anywhere(tensors.to, tensors.from, count, on);
          runtime::after_call(on.handle());
        };
      },
      [&](const program::Collective& work) { return collective(work, call, arguments); }};
  return std::visit(enqueue, call.work);
}

ResolvedCalls::Enqueue ResolvedCalls::launch(const program::Launch& launch, std::vector<void*> arguments,
                                             int layer) const {
  const program::Kernel& kernel = compiled_.program.kernels[static_cast<size_t>(launch.kernel)];
  device_code::LaunchShape shape;
  shape.grid.x = launch.grid.blocks;
  shape.block.x = kernel.block.threads;
  shape.dynamic_shared_bytes = kernel.block.shared_bytes;
  shape.overlap_previous = kernel.waits_for_previous;
  return [&kernel, &loaded = kernels_.kernels[static_cast<size_t>(launch.kernel)], shape, layer,
          maps = maps_of(kernel, arguments), arguments = std::move(arguments)](const cuda::Stream& stream) {
    std::vector<void*> parameters;
    for (const TensorMap& map : maps) parameters.push_back(const_cast<TensorMap*>(&map));
    for (size_t i = maps.size(); i < arguments.size(); ++i)
      parameters.push_back(const_cast<void**>(&arguments[i]));
    if (kernel.takes_layer) parameters.push_back(const_cast<int*>(&layer));
    device_code::launch(loaded, shape, parameters.data(), stream);
  };
}

ResolvedCalls::Enqueue ResolvedCalls::multiply(const program::Gemm& gemm, const cuda::Gemm& planned,
                                               const std::vector<void*>& tensors) const {
  const auto operands = gemm.operands(tensors);
  cuda::GemmArguments arguments;
  arguments.a = operands.a;
  arguments.b = operands.b;
  arguments.d = operands.c;
  arguments.bias = operands.bias;
  arguments.a_scale = static_cast<const float*>(operands.a_scale);
  arguments.b_scale = static_cast<const float*>(operands.b_scale);
  return [this, &planned, arguments, workspace = operands.workspace](const cuda::Stream& stream) {
    machine_.gemms().run(planned, arguments, stream, workspace);
  };
}

ResolvedCalls::Enqueue ResolvedCalls::attend(const program::Attention& attention, cudnn::Plan plan,
                                             const std::vector<void*>& arguments) const {
  const auto t = attention.tensors(arguments);
  if (attention.shape.backward) {
    const cudnn::BackwardPointers pointers{
        t.q, t.k, t.v, t.out, t.d_out, static_cast<const float*>(t.lse), t.d_q, t.d_k, t.d_v};
    return [this, plan = std::move(plan), pointers, workspace = t.workspace](const cuda::Stream& stream) {
      machine_.attention().run(plan, pointers, workspace, stream);
    };
  }
  const cudnn::ForwardPointers pointers{t.q, t.k, t.v, t.out, static_cast<float*>(t.lse)};
  return [this, plan = std::move(plan), pointers, workspace = t.workspace](const cuda::Stream& stream) {
    machine_.attention().run(plan, pointers, workspace, stream);
  };
}

ResolvedCalls::Enqueue ResolvedCalls::collective(const program::Collective& work, const Call& call,
                                                 const std::vector<void*>& arguments) const {
  const auto uses = work.tensors(call.arguments);
  const auto places = work.tensors(arguments);
  std::vector<cuda::Elements> tensors;
  for (size_t i = 0; i < places.size(); ++i) {
    const ir::Value& part = compiled_.graph.value(work.part(uses[i]));
    const int64_t slots = work.has_slots() ? part.shape[0].size : 1;
    tensors.push_back(
        {places[i].from, places[i].to, element_count(part.shape) / slots, element_type(part.dtype), slots});
  }
  return [this, work, tensors = std::move(tensors)](const cuda::Stream& stream) {
    ranks_.run(work, tensors, stream);
  };
}

void ResolvedCalls::enqueue(const ResolvedCall& call, const cuda::Stream& stream) const {
  std::optional<cuda::NvtxRange> range;
  if (cuda::nvtx_listens()) range.emplace(range_name(compiled_.program, call));
  call.enqueue(stream);
}

void ResolvedCalls::enqueue(const std::string& function, const Streams& streams) const {
  using program::Queue;
  const std::vector<ResolvedCall>& calls = of(function);
  std::vector<program::QueueStep> steps;
  for (const ResolvedCall& call : calls) steps.push_back({call.accesses, call.call->queue});
  const std::vector<std::vector<int>> waits = program::waits_between_queues(steps);
  std::set<int> awaited;
  for (const std::vector<int>& of_call : waits) awaited.insert(of_call.begin(), of_call.end());
  std::map<int, cuda::Event> events;
  std::set<Queue> forked;
  const auto stream_of = [&](Queue queue) -> const cuda::Stream& {
    return *streams[static_cast<size_t>(queue)];
  };
  const cuda::Stream& main = stream_of(Queue::main);
  for (size_t i = 0; i < calls.size(); ++i) {
    const Queue queue = steps[i].queue;
    const cuda::Stream& own = stream_of(queue);
    if (queue != Queue::main && forked.insert(queue).second) {
      cuda::Event start;
      start.record(main);
      own.wait(start);
    }
    for (const int earlier : waits[i]) own.wait(events.at(earlier));
    enqueue(calls[i], own);
    if (awaited.contains(static_cast<int>(i))) events[static_cast<int>(i)].record(own);
  }
  for (const Queue queue : forked) {
    if (queue == Queue::communication) {
      ranks_.await_sums();
      continue;
    }
    cuda::Event end;
    end.record(stream_of(queue));
    main.wait(end);
  }
}

}  // namespace hydrac::targets
