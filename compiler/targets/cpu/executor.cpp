#include "targets/cpu/executor.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "codegen/cpu_program.h"
#include "runtime/error.h"

namespace hydrac::targets {

using program::Call;

namespace {

using Launch = void (*)(void* const* arguments, int layer);

runtime::Gemm product_of(const Call& call, int iteration) {
  runtime::Gemm gemm;
  gemm.m = call.gemm.m;
  gemm.n = call.gemm.n;
  gemm.k = call.gemm.k;
  gemm.trans_a = call.gemm.transpose_a;
  gemm.trans_b = call.gemm.transpose_b;
  gemm.beta = call.gemm.accumulates(iteration) ? 1.0f : 0.0f;
  return gemm;
}

// The products of one training step, each shape once: recomputation repeats shapes and must not change which
// library is chosen for them, or it would change results.
std::vector<runtime::Gemm> shapes_of(const program::Program& program) {
  std::vector<runtime::Gemm> shapes;
  std::set<std::tuple<int64_t, int64_t, int64_t, bool, bool, float>> seen;
  for (const program::Function& function : program.functions) {
    if (function.name != "micro_step") continue;
    for (const program::Section& section : function.sections) {
      for (const Call& call : section.calls) {
        if (call.kind != Call::Kind::gemm) continue;
        const runtime::Gemm g = product_of(call, 1);
        if (seen.emplace(g.m, g.n, g.k, g.trans_a, g.trans_b, g.beta).second) shapes.push_back(g);
      }
    }
  }
  return shapes;
}

}  // namespace

struct CpuProgram::Step {
  Launch launch = nullptr;  // null: a product
  std::vector<void*> arguments;
  int layer = 0;
  runtime::Gemm gemm;
  const program::Section* section = nullptr;
  const Call* call = nullptr;
};

CpuProgram::CpuProgram(driver::Compiled compiled, const std::filesystem::path& cache_dir)
    : Executable(std::move(compiled)) {
  const driver::Compiled& c = this->compiled();
  omp_set_num_threads(c.threads);
  library_ = compile_kernels(codegen::cpu_source(c.graph, c.program), cache_dir);
  runtime::BlasOptions options;
  options.shapes = shapes_of(c.program);
  options.cache_file = (cache_dir / "blas-choice").string();
  blas_ = std::make_unique<runtime::Blas>(runtime::Blas::open(options));
  void* memory = mmap(nullptr, static_cast<size_t>(c.plan.arena_bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw runtime::RunError(
        fmt::format("cannot allocate the {} bytes of tensor memory: lower train.micro_batch_size, or "
                    "set optimizations.recompute: block",
                    c.plan.arena_bytes));
  }
  madvise(memory, static_cast<size_t>(c.plan.arena_bytes), MADV_HUGEPAGE);
  arena_ = static_cast<std::byte*>(memory);
  resolve();
}

CpuProgram::~CpuProgram() {
  munmap(arena_, static_cast<size_t>(compiled().plan.arena_bytes));
}

void CpuProgram::resolve() {
  std::vector<Launch> launches;
  for (const program::Kernel& kernel : compiled().program.kernels) {
    launches.push_back(reinterpret_cast<Launch>(symbol(library_, kernel.name + "__launch")));
  }
  for (const program::Function& function : compiled().program.functions) {
    std::vector<Step>& steps = steps_[function.name];
    for (const program::Section& section : function.sections) {
      const int iterations = std::max(section.layers, 1);
      for (int i = 0; i < iterations; ++i) {
        const int layer = section.reverse ? iterations - 1 - i : i;
        for (const Call& call : section.calls) {
          Step step;
          step.layer = layer;
          step.section = &section;
          step.call = &call;
          if (call.kind == Call::Kind::launch)
            step.launch = launches[call.kernel];
          else
            step.gemm = product_of(call, i);
          for (ir::Use use : call.arguments) {
            step.arguments.push_back(arena_ + plan::address(compiled().graph, compiled().plan, use, layer));
          }
          steps.push_back(std::move(step));
        }
      }
    }
  }
}

void CpuProgram::execute(const Step& step) const {
  if (step.launch) {
    step.launch(step.arguments.data(), step.layer);
    return;
  }
  blas_->gemm(step.gemm, static_cast<const float*>(step.arguments[0]),
              static_cast<const float*>(step.arguments[1]), static_cast<float*>(step.arguments[2]));
}

void CpuProgram::run(const std::string& function) {
  if (checking()) return run_checked(function);
  for (const Step& step : steps_.at(function)) execute(step);
}

void CpuProgram::step_through(const std::string& function, const AfterCall& go_on) const {
  for (const Step& step : steps_.at(function)) {
    execute(step);
    if (!go_on({*step.section, *step.call, step.layer})) return;
  }
}

Executable::LastRun CpuProgram::last_run() const {
  return {{inputs_.begin(), inputs_.end()}, 0};
}

std::vector<CallTime> CpuProgram::timed(const std::string& function) {
  std::vector<CallTime> times;
  for (const Step& step : steps_.at(function)) {
    const auto start = std::chrono::steady_clock::now();
    execute(step);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const Call& call = *step.call;
    times.push_back({step.section->name, step.launch ? compiled().program.kernels[call.kernel].name : "gemm",
                     call.label, seconds.count(), call.flop, call.bytes});
  }
  return times;
}

std::string CpuProgram::description() const {
  std::string text =
      fmt::format("{} kernels {} in {:.1f} s, products by {}, {} threads", compiled().program.kernels.size(),
                  library_.from_cache ? "from the cache" : "compiled", library_.seconds, blas_->name(),
                  compiled().threads);
  for (const std::string& note : blas_->notes()) text += "\nnote: " + note;
  return text;
}

template <typename T>
T* CpuProgram::pointer(ir::ValueId value) const {
  return reinterpret_cast<T*>(arena_ + offset(value));
}

void CpuProgram::copy_out(int64_t offset, std::span<std::byte> to) const {
  std::memcpy(to.data(), arena_ + offset, to.size());
}

void CpuProgram::copy_in(int64_t offset, std::span<const std::byte> from) {
  std::memcpy(arena_ + offset, from.data(), from.size());
}

void CpuProgram::clear_persistent() {
  std::memset(arena_, 0, static_cast<size_t>(compiled().plan.persistent_bytes));
}

namespace {

template <typename T>
void fill(const char* what, const std::vector<T>& from, T* to, int64_t elements) {
  if (static_cast<int64_t>(from.size()) != elements) {
    throw std::logic_error(
        fmt::format("a batch has {} {}, the program takes {}", from.size(), what, elements));
  }
  std::copy(from.begin(), from.end(), to);
}

}  // namespace

void CpuProgram::load_batch(const runtime::Batch& batch, float inv_count) {
  const models::Interface& io = compiled().interface;
  auto elements = [&](ir::ValueId id) { return element_count(compiled().graph.value(id).shape); };
  if (io.tokens != ir::kNoValue)
    fill("tokens", batch.tokens, pointer<int32_t>(io.tokens), elements(io.tokens));
  if (io.features != ir::kNoValue)
    fill("features", batch.features, pointer<float>(io.features), elements(io.features));
  if (compiled().graph.value(io.targets).dtype == ir::DType::i32) {
    fill("targets", batch.targets, pointer<int32_t>(io.targets), elements(io.targets));
  } else {
    fill("targets", batch.float_targets, pointer<float>(io.targets), elements(io.targets));
  }
  *pointer<float>(io.inv_count) = inv_count;
}

void CpuProgram::micro_step(const runtime::Batch& batch, float inv_count) {
  load_batch(batch, inv_count);
  if (std::exchange(step_ended_, false)) inputs_.clear();
  inputs_.emplace_back(arena_, arena_ + compiled().plan.input_bytes);
  run("micro_step");
}

void CpuProgram::update() {
  if (unread_result_) throw std::logic_error("update() before the last step's result was read");
  run("update");
  step_ended_ = true;
  unread_result_ = true;
}

runtime::StepResult CpuProgram::finish_step() {
  if (!unread_result_) throw std::logic_error("no step is unfinished");
  unread_result_ = false;
  const optimizers::Metrics& m = compiled().metrics;
  runtime::StepResult result;
  result.loss = *pointer<float>(m.step_loss);
  result.grad_norm = *pointer<float>(m.grad_norm);
  result.learning_rate = *pointer<float>(m.learning_rate);
  if (m.loss_scale != ir::kNoValue) {
    result.loss_scale = *pointer<float>(m.loss_scale);
    result.skipped = *pointer<int32_t>(m.skipped) != 0;
  }
  return result;
}

double CpuProgram::evaluate(const runtime::Batch& batch) {
  load_batch(batch, 1.0f);
  inputs_.clear();
  run("evaluate");
  return *pointer<float>(compiled().interface.eval_loss);
}

std::span<const float> CpuProgram::next_logits(std::span<const int32_t> prompt, int64_t position) {
  const models::Interface& io = compiled().interface;
  int32_t* tokens = pointer<int32_t>(io.prompt);
  std::fill_n(tokens, context_length(), 0);
  std::copy(prompt.begin(), prompt.end(), tokens);
  *pointer<int32_t>(io.position) = static_cast<int32_t>(position);
  run("generate");
  return {pointer<float>(io.logits),
          static_cast<size_t>(element_count(compiled().graph.value(io.logits).shape))};
}

}  // namespace hydrac::targets
