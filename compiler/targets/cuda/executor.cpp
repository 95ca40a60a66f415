#include "targets/cuda/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "targets/executable/program_layout.h"

namespace hydrac::targets {

namespace cuda = runtime::cuda;

namespace {

constexpr const char* kGemmSection = "cublaslt";  // of choices(): runtime/cuda/gemm/gemm.h

// PTX of an older arch runs on a newer GPU; its machine code would not.
std::future<CompiledKernels> start_compiling_for(const program::Program& program,
                                                 const CudaMachine& machine) {
  const int capability = machine.target().capability;
  const auto kind =
      machine.device().capability == capability ? device_code::CodeKind::cubin : device_code::CodeKind::ptx;
  return start_compiling(program, capability, kind, machine.cache_dir());
}

}  // namespace

CudaProgram::CudaProgram(driver::Compiled given, CudaMachine& machine)
    : Executable(std::move(given)),
      CudaStepProgram(layout_of(compiled()), machine.context()),
      machine_(machine),
      compiling_(start_compiling_for(compiled().program, machine)),
      matmuls_(compiled().program, compiled().spec.optimizations.precision == spec::Precision::tf32,
               machine.gemms(), stream(), {arena(), arena_bytes()}),
      kernels_(load_kernels(compiled().program, compiling_.get())),
      calls_(compiled(), {arena(), arena_bytes()}, machine, kernels_, matmuls_, stream(),
             {[this](const runtime::Collective& collective, std::span<const cuda::Elements> tensors,
                     const cuda::Stream& stream) { run(collective, tensors, stream); },
              [this] { await_sums(); }}) {
  use_graphs(compiled().spec.optimizations.cuda_graph);
  if (compiled().spec.optimizations.cuda_graph && spec::rank_count(compiled().spec) == 1) capture_graphs();
}

void CudaProgram::enqueue(runtime::Function function) {
  const std::string name(to_string(function));
  if (compiled().spec.optimizations.cuda_graph) {
    calls_.enqueue(name, {&stream(), &side_stream(), &communication(), &host_copies()});
  } else {
    for (const ResolvedCall& call : calls_.of(name)) calls_.enqueue(call, stream());
  }
}

std::vector<CallTime> CudaProgram::timed(const std::string& function) {
  const std::vector<ResolvedCall>& calls = calls_.of(function);
  std::vector<cuda::Event> events;
  for (size_t i = 0; i <= calls.size(); ++i) events.emplace_back(cuda::Event::Use::timing);
  events[0].record(stream());
  for (size_t i = 0; i < calls.size(); ++i) {
    calls_.enqueue(calls[i], stream());
    events[i + 1].record(stream());
  }
  stream().synchronize();
  std::vector<CallTime> times;
  for (size_t i = 0; i < calls.size(); ++i) {
    const program::Call& call = *calls[i].call;
    times.push_back({calls[i].section->name, name_of(compiled().program, call), call.label,
                     events[i + 1].ms_since(events[i]) * 1e-3, call.flop, call.bytes, &call});
  }
  return times;
}

// The library that computes sums over ranks decides their bits.
runtime::RecordedChoices CudaProgram::choices() const {
  runtime::RecordedChoices choices = machine_.choices();
  if (const int64_t ranks = spec::rank_count(compiled().spec); ranks > 1 && !sums_by().empty())
    choices.set("sums", "ranks", fmt::format("{} by {}", ranks, sums_by()));
  if (const int64_t ranks = compiled().spec.parallel.tensor; ranks > 1)
    choices.set("sums", "layers", fmt::format("{} ranks", ranks));
  return choices;
}

std::string CudaProgram::description() const {
  const size_t count = kernels_.kernels.size();
  return fmt::format("{} kernels for {} in {:.1f} s ({} from the cache), matmuls by {}{}", count,
                     machine_.device().name, kernels_.seconds, kernels_.from_cache,
                     machine_.gemms().version(), monitor().note().empty() ? "" : "; " + monitor().note());
}

std::vector<Exchangeable> CudaProgram::exchangeable(int most) {
  std::map<std::string, double> flop;  // of a micro-batch, by the matmul's text
  std::map<std::string, const cuda::Gemm*> matmuls;
  for (const ResolvedCall& call : calls_.of(std::string(to_string(runtime::Function::micro_step)))) {
    if (!call.matmul) continue;
    flop[call.matmul->problem().text()] += call.matmul->problem().flop();
    matmuls[call.matmul->problem().text()] = call.matmul;
  }
  std::vector<Exchangeable> list;
  const cuda::DeviceRange scratch{arena(), arena_bytes()};
  for (const auto& [text, matmul] : matmuls) {
    const cuda::GemmProblem& problem = matmul->problem();
    const bool fits = machine_.gemms().scratch_bytes(problem) <= scratch.bytes;
    list.push_back(
        {kGemmSection, text, machine_.gemms().choices().find(kGemmSection, text).value(),
         machine_.gemms().alternatives(problem, stream(), fits ? scratch : cuda::DeviceRange{}, most)});
  }
  std::erase_if(list, [](const Exchangeable& call) { return call.others.empty(); });
  std::ranges::stable_sort(list, std::greater(), [&](const Exchangeable& call) { return flop.at(call.key); });
  return list;
}

void CudaProgram::exchange(const std::string& section, const std::string& key, const std::string& algorithm) {
  if (section != kGemmSection) return Executable::exchange(section, key, algorithm);
  matmuls_.exchange(key, algorithm);
  forget_graphs();
}

}  // namespace hydrac::targets
