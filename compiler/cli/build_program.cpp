#include "cli/build_program.h"

#include <fmt/format.h>

#include "cli/spec_input.h"
#include "codegen/cpu_library.h"
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

driver::CompileOptions cpu_options(const spec::Spec& spec, const std::string& dump_dir) {
  check_cpu_shapes(spec);
  driver::CompileOptions options;
  options.threads = thread_count(spec);
  options.dump_dir = dump_dir;
  return options;
}

}  // namespace

BuiltProgram build_program(const spec::Spec& spec, const std::string& dump_dir) {
  BuiltProgram built;
  if (target_of(spec).is_cpu()) {
    built.program = std::make_unique<targets::CpuProgram>(driver::compile(spec, cpu_options(spec, dump_dir)),
                                                          targets::default_cache_dir());
    return built;
  }
  built.machine = std::make_unique<targets::CudaMachine>(target_of(spec), targets::default_cache_dir());
  built.program = std::make_unique<targets::CudaProgram>(
      driver::compile(spec, built.machine->compile_options(spec, dump_dir)), *built.machine);
  return built;
}

driver::Compiled plan_program(const spec::Spec& spec, const std::string& dump_dir) {
  const targets::Target& target = target_of(spec);
  if (target.is_cpu()) return driver::compile(spec, cpu_options(spec, dump_dir));
  if (targets::detected_gpu() == target.name) {
    targets::CudaMachine machine(target, targets::default_cache_dir());
    return driver::compile(spec, machine.compile_options(spec, dump_dir));
  }
  return driver::compile(spec, targets::offline_compile_options(spec, dump_dir));
}

}  // namespace hydrac::cli
