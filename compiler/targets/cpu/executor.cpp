#include "targets/cpu/executor.h"

#include <fmt/format.h>
#include <omp.h>

#include <chrono>
#include <stdexcept>
#include <utility>

#include "codegen/cpu/program.h"
#include "program/for_each_call.h"
#include "program/for_each_matmul.h"
#include "runtime/program/after_call.h"
#include "targets/cpu/try_kernels.h"
#include "targets/executable/program_layout.h"

namespace hydrac::targets {

using program::Call;
using runtime::Function;

namespace {

using Launch = void (*)(void* const* arguments, int layer, int64_t rows);

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

// The matmuls of one training step, each shape once. Recomputation repeats shapes; it must not change which
// library is chosen for them, because that would change results.
std::vector<runtime::Gemm> shapes_of(const program::Program& program) {
  std::vector<runtime::Gemm> shapes;
  for_each_matmul(program, program::Matmuls::step,
                  [&](const Call&, const program::GemmShape& shape) { shapes.push_back(matmul_of(shape)); });
  return shapes;
}

}  // namespace

struct CpuProgram::Step {
  const program::Section* section = nullptr;
  const Call* call = nullptr;
  std::function<void()> run = {};
};

CpuProgram::CpuProgram(driver::Compiled given, const std::filesystem::path& cache_dir,
                       const runtime::RecordedChoices& recorded)
    : Executable(std::move(given)), CpuStepProgram(layout_of(compiled())) {
  const driver::Compiled& c = compiled();
  omp_set_num_threads(c.threads);
  library_ =
      compile_kernels(codegen::cpu_source(c.graph, c.program), cache_dir,
                      [&](const KernelLibrary& code) { return try_kernels(c.graph, c.program, code); });
  runtime::BlasOptions options;
  options.shapes = shapes_of(c.program);
  options.recorded = recorded;
  options.cache_file = (cache_dir / "blas-choices").string();
  blas_ = std::make_unique<runtime::Blas>(runtime::Blas::open(options));
  resolve();
}

CpuProgram::~CpuProgram() = default;

void CpuProgram::resolve() {
  for (const program::Function& function : compiled().program.functions) {
    std::vector<Step>& steps = steps_[function.name];
    for_each_call(function, [&](const program::Section& section, const Call& call, int iteration, int layer) {
      std::vector<void*> addresses;
      for (const ir::Use use : call.arguments)
        addresses.push_back(arena() + plan::address(compiled().graph, compiled().plan, use, layer));
      steps.push_back({&section, &call, resolved(call, addresses, iteration, section.first_layer + layer)});
    });
  }
}

namespace {

// A call that says when it is made.
template <typename Work>
std::function<void()> announced(Work work) {
  return [work = std::move(work)] {
    runtime::before_call();
    work();
    runtime::after_call();
  };
}

std::vector<runtime::SharedFloats> shared_floats(const ir::Graph& graph, const program::Collective& work,
                                                 const Call& call, const std::vector<void*>& addresses) {
  const auto uses = work.tensors(call.arguments);
  const auto places = work.tensors(addresses);
  std::vector<runtime::SharedFloats> tensors;
  for (size_t i = 0; i < places.size(); ++i) {
    const ir::Shape& part = graph.value(work.part(uses[i])).shape;
    const int64_t slots = work.has_slots() ? part[0].size : 1;
    tensors.push_back({static_cast<const float*>(places[i].from), static_cast<float*>(places[i].to),
                       element_count(part) / slots, slots});
  }
  return tensors;
}

std::function<void()> only_on_gpus(const char* what) {
  throw std::logic_error(std::string("a program for the cpu has a call of a GPU's: ") + what);
}

}  // namespace

std::function<void()> CpuProgram::resolved(const Call& call, const std::vector<void*>& addresses,
                                           int iteration, int layer) const {
  using Run = std::function<void()>;
  const program::Overloaded run{
      [&](const program::Launch& work) -> Run {
        const program::Kernel& kernel = compiled().program.kernels[static_cast<size_t>(work.kernel)];
        const auto launch = reinterpret_cast<Launch>(symbol(library_, kernel.name + "__launch"));
        return announced(
            [launch, addresses, layer, rows = work.grid.blocks] { launch(addresses.data(), layer, rows); });
      },
      [&](const program::Gemm& work) -> Run {
        const auto operands = work.operands(addresses);
        return [this, gemm = matmul_of(shape_at(work.shape, iteration)),
                groups = runtime::Groups{work.shape.groups, static_cast<const int32_t*>(operands.offsets),
                                         work.shape.row_by_row},
                a = static_cast<const float*>(operands.a), b = static_cast<const float*>(operands.b),
                c = static_cast<float*>(operands.c)] { blas_->gemm(gemm, a, b, c, groups); };
      },
      [&](const program::Collective& work) -> Run {
        const runtime::LaidOutProgram& ranks = *this;
        return announced([&ranks, work, tensors = shared_floats(compiled().graph, work, call, addresses)] {
          ranks.run(work, tensors);
        });
      },
      [](const program::Attention&) { return only_on_gpus("cuDNN's attention"); },
      [](const program::Zero&) { return only_on_gpus("zero"); },
      [](const program::Copy&) { return only_on_gpus("copy"); }};
  return std::visit(run, call.work);
}

// Another program of this process may have set another number of threads.
void CpuProgram::execute(Function function) {
  omp_set_num_threads(compiled().threads);
  for (const Step& step : steps_.at(std::string(to_string(function)))) step.run();
}

std::vector<CallTime> CpuProgram::timed(const std::string& function) {
  std::vector<CallTime> times;
  for (const Step& step : steps_.at(function)) {
    const auto start = std::chrono::steady_clock::now();
    step.run();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const Call& call = *step.call;
    times.push_back({step.section->name,
                     program::is<program::Gemm>(call) ? "gemm" : name_of(compiled().program, call),
                     call.label, seconds.count(), call.flop, call.bytes, &call});
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
  if (!library_.note.empty()) text += "\nnote: " + library_.note;
  for (const std::string& note : blas_->notes()) text += "\nnote: " + note;
  return text;
}

}  // namespace hydrac::targets
