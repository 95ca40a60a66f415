#include "targets/cuda/executor.h"

#include <fmt/format.h>

#include "runtime/error.h"
#include "targets/executable/program_layout.h"

namespace hydrac::targets {

namespace cuda = runtime::cuda;

namespace {

// PTX of an older arch runs on a newer GPU; its machine code would not.
LoadedKernels load_for(const program::Program& program, const CudaMachine& machine) {
  const int capability = machine.target().capability;
  const auto kind = machine.device().capability == capability ? cuda::CodeKind::cubin : cuda::CodeKind::ptx;
  return load_kernels(program, capability, kind, machine.cache_dir());
}

}  // namespace

CudaProgram::CudaProgram(driver::Compiled given, CudaMachine& machine)
    : Executable(std::move(given)),
      CudaStepProgram(layout_of(compiled()), machine.context()),
      machine_(machine),
      kernels_(load_for(compiled().program, machine)),
      products_(compiled().program, compiled().spec.optimizations.precision == spec::Precision::tf32,
                machine.gemms(), stream(), {arena(), arena_bytes()}),
      calls_(compiled(), {arena(), arena_bytes()}, machine, kernels_, products_, stream()) {
  use_graphs(compiled().spec.optimizations.cuda_graph);
  if (compiled().spec.optimizations.cuda_graph) capture_graphs();
}

void CudaProgram::enqueue(runtime::Function function) {
  const std::string name(to_string(function));
  if (checking()) {
    run_checked(name);
  } else if (compiled().spec.optimizations.cuda_graph) {
    calls_.enqueue(name, stream(), beside());
  } else {
    for (const ResolvedCall& call : calls_.of(name)) calls_.enqueue(call, stream());
  }
}

// A capture must not wait for calls.
void CudaProgram::check_kernels() {
  Executable::check_kernels();
  use_graphs(false);
}

void CudaProgram::step_through(const std::string& function, const AfterCall& go_on) {
  for (const ResolvedCall& call : calls_.of(function)) {
    const CallPlace place{*call.section, *call.call, call.layer};
    try {
      calls_.enqueue(call, stream());
      stream().synchronize();
    } catch (const runtime::RunError& error) {
      throw runtime::RunError(fmt::format("{} failed: {}", to_text(compiled(), place), error.what()));
    }
    if (!go_on(place)) return;
  }
}

void CudaProgram::micro_step(const runtime::Batch& batch, float inv_count) {
  evaluated_ = false;
  CudaStepProgram::micro_step(batch, inv_count);
}

double CudaProgram::evaluate(const runtime::Batch& batch) {
  evaluated_ = true;
  return CudaStepProgram::evaluate(batch);
}

Executable::LastRun CudaProgram::last_run() const {
  if (evaluated_) return {};
  return {staging().finished_inputs(), staging().later_steps() * layout().gradient_accumulation_steps};
}

// What fails on the GPU shows where the host next waits for it; by then nobody knows which call it was.
runtime::StepResult CudaProgram::finish_step() {
  try {
    return CudaStepProgram::finish_step();
  } catch (const runtime::RunError& error) {
    throw runtime::RunError(
        fmt::format("{}\n`hydrac run` with --check-kernels names the kernel that fails", error.what()));
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
                     events[i + 1].ms_since(events[i]) * 1e-3, call.flop, call.bytes,
                     call.multiplies_matrices});
  }
  return times;
}

std::string CudaProgram::description() const {
  const size_t count = kernels_.kernels.size();
  return fmt::format("{} kernels for {} in {:.1f} s ({} from the cache), products by {}{}", count,
                     machine_.device().name, kernels_.seconds, kernels_.from_cache,
                     machine_.gemms().version(), monitor().note().empty() ? "" : "; " + monitor().note());
}

}  // namespace hydrac::targets
