#include "targets/cpu/executor.h"

#include <fmt/format.h>
#include <omp.h>

#include <chrono>
#include <span>
#include <stdexcept>
#include <utility>

#include "codegen/cpu_program.h"
#include "program/for_each_call.h"
#include "program/for_each_matmul.h"
#include "runtime/parallel/ranks.h"
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

// The tensors of a call that works on floats.
std::vector<std::span<float>> floats_of(const ir::Graph& graph, const Call& call,
                                        const std::vector<void*>& addresses) {
  std::vector<std::span<float>> tensors;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const int64_t count = element_count(graph.value(call.arguments[i]).shape);
    tensors.emplace_back(static_cast<float*>(addresses[i]), static_cast<size_t>(count));
  }
  return tensors;
}

std::vector<runtime::SharedFloats> shared_floats(const program::OfParts& work,
                                                 const std::vector<std::span<float>>& tensors) {
  std::vector<runtime::SharedFloats> shared;
  for (const auto& [whole, part] : work.tensors(tensors))
    shared.push_back({whole.data(), part.data(), static_cast<int64_t>(part.size())});
  return shared;
}

std::vector<runtime::SharedFloats> shared_slots(const ir::Graph& graph, const Call& call,
                                                const program::AllToAll& work,
                                                const std::vector<std::span<float>>& tensors) {
  std::vector<runtime::SharedFloats> shared = shared_floats(work, tensors);
  const auto uses = work.tensors(call.arguments);
  for (size_t i = 0; i < shared.size(); ++i) {
    shared[i].slots = graph.value(uses[i].part).shape[0].size;
    shared[i].count /= shared[i].slots;
  }
  return shared;
}

std::function<void()> only_on_gpus(const char* what) {
  throw std::logic_error(std::string("a program for the cpu has a call of a GPU's: ") + what);
}

}  // namespace

std::function<void()> CpuProgram::resolved(const Call& call, const std::vector<void*>& addresses,
                                           int iteration, int layer) const {
  using Run = std::function<void()>;
  const auto floats = [&] { return floats_of(compiled().graph, call, addresses); };
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
                a = static_cast<const float*>(operands.a), b = static_cast<const float*>(operands.b),
                c = static_cast<float*>(operands.c)] { blas_->gemm(gemm, a, b, c); };
      },
      [&](const program::AllReduce& work) -> Run {
        if (work.largest) throw std::logic_error("ranks on the cpu find no largest number");
        return announced([this, tensors = floats(), group = work.ranks] {
          for (const std::span<float> tensor : tensors) all_reduce(tensor, tensor, group);
        });
      },
      [&](const program::SumOverRanks& work) -> Run {
        return announced([this, tensors = work.tensors(floats()), group = work.ranks] {
          all_reduce(tensors.from, tensors.to, group);
        });
      },
      [&](const program::ReduceScatter& work) -> Run {
        return announced([this, tensors = shared_floats(work, floats()), group = work.ranks] {
          for (const runtime::SharedFloats& tensor : tensors) reduce_scatter(tensor, group);
        });
      },
      [&](const program::AllGather& work) -> Run {
        return announced([this, tensors = shared_floats(work, floats()), group = work.ranks] {
          for (const runtime::SharedFloats& tensor : tensors) all_gather(tensor, group);
        });
      },
      [&](const program::OwnPart& work) -> Run {
        return announced([this, tensors = shared_floats(work, floats()), group = work.ranks] {
          for (const runtime::SharedFloats& tensor : tensors) own_part(tensor, group);
        });
      },
      [&](const program::AllToAll& work) -> Run {
        return announced([this, tensors = shared_slots(compiled().graph, call, work, floats()),
                          to_owners = work.to_owners()] {
          for (const runtime::SharedFloats& tensor : tensors)
            to_owners ? this->to_owners(tensor) : from_owners(tensor);
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
