#include "targets/cpu/executor.h"

#include <fmt/format.h>
#include <omp.h>

#include <chrono>
#include <utility>

#include "codegen/cpu_program.h"
#include "program/for_each_call.h"
#include "program/for_each_matmul.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/after_call.h"
#include "targets/executable/program_layout.h"

namespace hydrac::targets {

using program::Call;
using runtime::Function;

namespace {

using Launch = void (*)(void* const* arguments, int layer);

runtime::Gemm matmul_of(const program::GemmShape& shape) {
  runtime::Gemm gemm;
  gemm.m = shape.m;
  gemm.n = shape.n;
  gemm.k = shape.k;
  gemm.trans_a = shape.transpose_a;
  gemm.trans_b = shape.transpose_b;
  gemm.beta = shape.accumulate ? 1.0f : 0.0f;
  gemm.batch = shape.batch;
  return gemm;
}

// The matmuls of one training step, each shape once: recomputation repeats shapes and must not change which
// library is chosen for them, or it would change results.
std::vector<runtime::Gemm> shapes_of(const program::Program& program) {
  std::vector<runtime::Gemm> shapes;
  for_each_matmul(program, program::Matmuls::step,
                  [&](const Call&, const program::GemmShape& shape) { shapes.push_back(matmul_of(shape)); });
  return shapes;
}

}  // namespace

struct CpuProgram::Step {
  Launch launch = nullptr;  // of a kernel
  std::vector<void*> arguments;
  int layer = 0;
  runtime::Gemm gemm;
  std::vector<std::span<float>> reduced = {};      // all_reduce, sum_over_ranks
  std::vector<runtime::SharedFloats> shared = {};  // of a call that has_parts()
  const program::Section* section = nullptr;
  const Call* call = nullptr;
};

CpuProgram::CpuProgram(driver::Compiled given, const std::filesystem::path& cache_dir,
                       const runtime::RecordedChoices& recorded)
    : Executable(std::move(given)), CpuStepProgram(layout_of(compiled())) {
  const driver::Compiled& c = compiled();
  omp_set_num_threads(c.threads);
  library_ = compile_kernels(codegen::cpu_source(c.graph, c.program), cache_dir);
  runtime::BlasOptions options;
  options.shapes = shapes_of(c.program);
  options.recorded = recorded;
  options.cache_file = (cache_dir / "blas-choices").string();
  blas_ = std::make_unique<runtime::Blas>(runtime::Blas::open(options));
  resolve();
}

CpuProgram::~CpuProgram() = default;

void CpuProgram::resolve() {
  std::vector<Launch> launches;
  for (const program::Kernel& kernel : compiled().program.kernels) {
    launches.push_back(reinterpret_cast<Launch>(symbol(library_, kernel.name + "__launch")));
  }
  for (const program::Function& function : compiled().program.functions) {
    std::vector<Step>& steps = steps_[function.name];
    for_each_call(function, [&](const program::Section& section, const Call& call, int iteration, int layer) {
      Step step;
      step.layer = section.first_layer + layer;
      step.section = &section;
      step.call = &call;
      const auto address = [&](ir::Use use) {
        return arena() + plan::address(compiled().graph, compiled().plan, use, layer);
      };
      const auto floats = [&](ir::Use use) { return reinterpret_cast<float*>(address(use)); };
      const auto count = [&](ir::Use use) { return element_count(compiled().graph.value(use).shape); };
      if (call.kind == Call::Kind::launch)
        step.launch = launches[call.kernel];
      else if (call.kind == Call::Kind::all_reduce || call.kind == Call::Kind::sum_over_ranks)
        for (const ir::Use use : call.arguments)
          step.reduced.emplace_back(floats(use), static_cast<size_t>(count(use)));
      else if (call.has_parts())
        for (const auto& [whole, part] : shared_tensors(call))
          step.shared.push_back({floats(whole), floats(part), count(part)});
      else
        step.gemm = matmul_of(shape_at(call.gemm, iteration));
      for (ir::Use use : call.arguments) step.arguments.push_back(address(use));
      steps.push_back(std::move(step));
    });
  }
}

void CpuProgram::execute(const Step& step) const {
  if (step.launch) {
    runtime::before_call();
    step.launch(step.arguments.data(), step.layer);
    runtime::after_call();
    return;
  }
  if (step.call->is_collective() || step.call->has_parts()) {
    runtime::before_call();
    exchange(step);
    runtime::after_call();
    return;
  }
  blas_->gemm(step.gemm, static_cast<const float*>(step.arguments[0]),
              static_cast<const float*>(step.arguments[1]), static_cast<float*>(step.arguments[2]));
}

void CpuProgram::exchange(const Step& step) const {
  const auto group = step.call->of_tensor ? runtime::RankGroup::tensor : runtime::RankGroup::data;
  if (step.call->kind == Call::Kind::sum_over_ranks)
    return all_reduce(step.reduced[0], step.reduced[1], group);
  for (const std::span<float> tensor : step.reduced) all_reduce(tensor, tensor, group);
  for (const runtime::SharedFloats& tensor : step.shared) {
    if (step.call->kind == Call::Kind::reduce_scatter) reduce_scatter(tensor);
    if (step.call->kind == Call::Kind::all_gather) all_gather(tensor, group);
    if (step.call->kind == Call::Kind::own_part) own_part(tensor, group);
  }
}

// Another program of this process may have set another number of threads.
void CpuProgram::execute(Function function) {
  omp_set_num_threads(compiled().threads);
  for (const Step& step : steps_.at(std::string(to_string(function)))) execute(step);
}

std::vector<CallTime> CpuProgram::timed(const std::string& function) {
  std::vector<CallTime> times;
  for (const Step& step : steps_.at(function)) {
    const auto start = std::chrono::steady_clock::now();
    execute(step);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const Call& call = *step.call;
    times.push_back({step.section->name,
                     call.kind == Call::Kind::gemm ? "gemm" : name_of(compiled().program, call), call.label,
                     seconds.count(), call.flop, call.bytes, &call});
  }
  return times;
}

runtime::RecordedChoices CpuProgram::choices() const {
  runtime::RecordedChoices choices = blas_->choices();
  choices.set("kernels", "compiler", library_.compiler);
  if (const std::string sums = sums_of_ranks(compiled().spec); !sums.empty())
    choices.set("sums", "micro-batches", sums);
  if (const int64_t ranks = compiled().spec.parallel.tensor; ranks > 1)
    choices.set("sums", "layers", fmt::format("{} ranks", ranks));
  return choices;
}

std::string CpuProgram::description() const {
  std::string text =
      fmt::format("{} kernels {} in {:.1f} s, matmuls by {}, {} threads", compiled().program.kernels.size(),
                  library_.from_cache ? "from the cache" : "compiled", library_.seconds, blas_->name(),
                  compiled().threads);
  for (const std::string& note : blas_->notes()) text += "\nnote: " + note;
  return text;
}

}  // namespace hydrac::targets
