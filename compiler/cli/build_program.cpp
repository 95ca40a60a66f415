#include "cli/build_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cli/input/spec_input.h"
#include "cli/output/program_memory.h"
#include "codegen/cpu/library.h"
#include "driver/memory_problem.h"
#include "runtime/cache/cache_dir.h"
#include "runtime/error.h"
#include "targets/cpu/executor.h"
#include "targets/cuda/executor.h"

namespace hydrac::cli {

namespace {

const targets::Target& target_of(const spec::Spec& spec) {
  return *targets::find(spec.target);
}

void check_cpu_shapes(const spec::Spec& spec) {
  if (codegen::cpu_attention_supports(spec.model.head_dim)) return;
  throw runtime::InputError(
      fmt::format("model.head_dim is {}: the cpu's attention kernels take multiples of 8 up to 256",
                  spec.model.head_dim));
}

void check_gpu_shapes(const spec::Spec& spec) {
  const int64_t dim = spec.model.head_dim;
  if (dim % 8 == 0 && dim <= 256) return;
  throw runtime::InputError(
      fmt::format("model.head_dim is {}: attention kernels on GPUs take multiples of 8 up to 256", dim));
}

// The recorded thread count, if the spec leaves it open and the machine has as many: matmuls sum in an order
// that depends on it.
int threads_of(const spec::Spec& spec, const runtime::RecordedChoices& recorded) {
  const int here = thread_count(spec);
  if (spec.optimizations.threads > 0) return here;
  const int then = std::atoi(recorded.find("blas", "threads").value_or("0").c_str());
  return then > 0 && then < here ? then : here;
}

driver::CompileOptions cpu_options(const spec::Spec& spec, const BuildOptions& options) {
  check_cpu_shapes(spec);
  driver::CompileOptions compile_options;
  compile_options.threads = threads_of(spec, options.recorded);
  compile_options.dump_dir = options.dump_dir;
  compile_options.memory_bytes = options.memory_bytes;
  compile_options.generation = options.generation;
  return compile_options;
}

void require_gpu(const spec::Spec& spec) {
  if (targets::detected_gpu()) return targets::require_gpu_for(target_of(spec));
  try {
    runtime::cuda::devices();
  } catch (const runtime::InputError& error) {
    throw runtime::InputError(fmt::format(
        "target {} needs a GPU. On this machine's processors: target=cpu optimizations.precision=fp32\n{}",
        spec.target, error.what()));
  }
  throw runtime::InputError(fmt::format("target {}: this machine's GPU is older than sm_75", spec.target));
}

std::unique_ptr<targets::CudaMachine> open_gpu(const spec::Spec& spec, const BuildOptions& options) {
  require_gpu(spec);
  return std::make_unique<targets::CudaMachine>(target_of(spec), runtime::cache_dir(), options.recorded,
                                                options.gpu);
}

// Free memory of the GPU, less what modules, cuDNN and the CUDA graph will take of it.
driver::CompileOptions gpu_options(targets::CudaMachine& machine, const spec::Spec& spec,
                                   const BuildOptions& options) {
  check_gpu_shapes(spec);
  constexpr int64_t reserve = int64_t{600} << 20;
  driver::CompileOptions compile_options = machine.compile_options(spec, options.dump_dir);
  compile_options.memory_bytes = options.memory_bytes > 0
                                     ? options.memory_bytes
                                     : std::max<int64_t>(1, machine.context().free_bytes() - reserve);
  compile_options.generation = options.generation;
  return compile_options;
}

PlannedProgram planned(const spec::Spec& spec, const driver::CompileOptions& options) {
  PlannedProgram program{with_countable_sizes(spec, [&] { return driver::compile(spec, options); }),
                         driver::memory_limit(spec, options),
                         {}};
  program.problem = driver::memory_problem(program.compiled, options);
  return program;
}

driver::Compiled fitting(const spec::Spec& spec, const driver::CompileOptions& options) {
  PlannedProgram program = planned(spec, options);
  require_fit(program.problem);
  return std::move(program.compiled);
}

}  // namespace

driver::CompileOptions planning_options(const spec::Spec& spec, int64_t memory_bytes) {
  driver::CompileOptions options;
  if (target_of(spec).is_cpu())
    options.threads = thread_count(spec);
  else
    options = targets::offline_compile_options(spec, "");
  options.memory_bytes = memory_bytes;
  return options;
}

void check_shapes(const spec::Spec& spec) {
  target_of(spec).is_cpu() ? check_cpu_shapes(spec) : check_gpu_shapes(spec);
}

void require_runnable(const spec::Spec& spec) {
  if (target_of(spec).is_cpu()) return check_cpu_shapes(spec);
  require_gpu(spec);
  check_gpu_shapes(spec);
}

BuildOptions build_options(const Arguments& arguments) {
  return {arguments.value("--dump").value_or(""), memory_option(arguments)};
}

BuiltProgram build_program(const spec::Spec& spec, const BuildOptions& options) {
  BuiltProgram built;
  const auto timed = [&](const char* what, auto&& work) {
    const auto began = std::chrono::steady_clock::now();
    auto made = work();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
    built.phases.push_back({what, taken.count()});
    return made;
  };
  const auto plan = [&](const driver::CompileOptions& compile_options) {
    return timed("plan", [&] { return fitting(spec, compile_options); });
  };
  if (target_of(spec).is_cpu()) {
    driver::Compiled compiled = plan(cpu_options(spec, options));
    built.program = timed("kernels", [&] {
      return std::make_unique<targets::CpuProgram>(std::move(compiled), runtime::cache_dir(),
                                                   options.recorded);
    });
    return built;
  }
  built.machine = timed("GPU and libraries", [&] { return open_gpu(spec, options); });
  driver::Compiled compiled = plan(gpu_options(*built.machine, spec, options));
  built.program = timed("kernels and graphs", [&] {
    return std::make_unique<targets::CudaProgram>(std::move(compiled), *built.machine);
  });
  return built;
}

namespace {

PlannedProgram plan_target(const spec::Spec& spec, const BuildOptions& options) {
  const targets::Target& target = target_of(spec);
  if (target.is_cpu()) return planned(spec, cpu_options(spec, options));
  if (!options.offline && targets::detected_gpu() == target.name) {
    targets::CudaMachine machine(target, runtime::cache_dir());
    return planned(spec, gpu_options(machine, spec, options));
  }
  check_gpu_shapes(spec);
  driver::CompileOptions offline = targets::offline_compile_options(spec, options.dump_dir);
  offline.memory_bytes = options.memory_bytes;
  offline.generation = options.generation;
  return planned(spec, offline);
}

}  // namespace

PlannedProgram plan_program(const spec::Spec& spec, const BuildOptions& options) {
  PlannedProgram program = plan_target(spec, options);
  passes::Log& decisions = program.compiled.decisions;
  decisions.insert(decisions.begin(), options.chosen.begin(), options.chosen.end());
  return program;
}

}  // namespace hydrac::cli
