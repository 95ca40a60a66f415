#include "targets/cpu/executor.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "codegen/cpu_program.h"
#include "runtime/error.h"
#include "targets/common/checkpoint_tensors.h"
#include "targets/cpu/initialize.h"

namespace hydrac::targets {

using program::Call;

namespace {

using Launch = void (*)(void* const* arguments, int layer);

runtime::Gemm product_of(const Call& call) {
  runtime::Gemm gemm;
  gemm.m = call.gemm.m;
  gemm.n = call.gemm.n;
  gemm.k = call.gemm.k;
  gemm.trans_a = call.gemm.transpose_a;
  gemm.trans_b = call.gemm.transpose_b;
  gemm.beta = call.gemm.accumulate ? 1.0f : 0.0f;
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
        const runtime::Gemm g = product_of(call);
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

struct CpuProgram::Functions {
  std::map<std::string, std::vector<Step>> steps;
};

CpuProgram::CpuProgram(driver::Compiled compiled, const std::filesystem::path& cache_dir)
    : compiled_(std::move(compiled)), functions_(std::make_unique<Functions>()) {
  omp_set_num_threads(compiled_.threads);
  library_ = compile_kernels(codegen::cpu_source(compiled_.graph, compiled_.program), cache_dir);
  runtime::BlasOptions options;
  options.shapes = shapes_of(compiled_.program);
  options.cache_file = (cache_dir / "blas-choice").string();
  blas_ = std::make_unique<runtime::Blas>(runtime::Blas::open(options));
  void* memory = mmap(nullptr, static_cast<size_t>(compiled_.plan.arena_bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw runtime::RunError(
        fmt::format("cannot allocate the {} bytes of tensor memory: lower train.micro_batch_size, or "
                    "set optimizations.recompute: block",
                    compiled_.plan.arena_bytes));
  }
  madvise(memory, static_cast<size_t>(compiled_.plan.arena_bytes), MADV_HUGEPAGE);
  arena_ = static_cast<std::byte*>(memory);
  resolve();
}

CpuProgram::~CpuProgram() {
  munmap(arena_, static_cast<size_t>(compiled_.plan.arena_bytes));
}

void CpuProgram::resolve() {
  std::vector<Launch> launches;
  for (const program::Kernel& kernel : compiled_.program.kernels) {
    launches.push_back(reinterpret_cast<Launch>(symbol(library_, kernel.name + "__launch")));
  }
  for (const program::Function& function : compiled_.program.functions) {
    std::vector<Step>& steps = functions_->steps[function.name];
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
            step.gemm = product_of(call);
          for (ir::Use use : call.arguments) {
            step.arguments.push_back(arena_ + plan::address(compiled_.graph, compiled_.plan, use, layer));
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
  for (const Step& step : functions_->steps.at(function)) execute(step);
}

std::vector<CallTime> CpuProgram::timed(const std::string& function) {
  std::vector<CallTime> times;
  for (const Step& step : functions_->steps.at(function)) {
    const auto start = std::chrono::steady_clock::now();
    execute(step);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const Call& call = *step.call;
    times.push_back({step.section->name, step.launch ? compiled_.program.kernels[call.kernel].name : "gemm",
                     call.label, seconds.count(), call.flop, call.bytes});
  }
  return times;
}

template <typename T>
T* CpuProgram::pointer(ir::ValueId value, int slot) const {
  return reinterpret_cast<T*>(arena_ +
                              plan::address(compiled_.graph, compiled_.plan, {value, {false, slot}}, 0));
}

void CpuProgram::initialize() {
  unread_result_ = false;
  std::memset(arena_, 0, static_cast<size_t>(compiled_.plan.persistent_bytes));
  const auto seed = static_cast<uint32_t>(compiled_.spec.train.seed);
  uint32_t stream = 0;
  for (const ir::Value& value : compiled_.graph.values) {
    if (!value.parameter) continue;
    for (int slot = 0; slot < value.slots; ++slot) {
      const auto elements = static_cast<size_t>(element_count(value.shape));
      initialize_parameter({pointer<float>(value.id, slot), elements}, value.parameter->init, seed, stream++);
    }
  }
  const models::Interface& io = compiled_.interface;
  *pointer<uint32_t>(io.rng_seed) = seed;
  if (io.loss_scale != ir::kNoValue)
    *pointer<float>(io.loss_scale) = static_cast<float>(optimizers::LossScaling{}.initial);
  if (io.rope_cos != ir::kNoValue) {
    const auto elements = static_cast<size_t>(element_count(compiled_.graph.value(io.rope_cos).shape));
    fill_rope_tables(compiled_.spec, {pointer<float>(io.rope_cos), elements},
                     {pointer<float>(io.rope_sin), elements});
  }
}

namespace {

template <typename T>
void copy_in(const char* what, const std::vector<T>& from, T* to, int64_t elements) {
  if (static_cast<int64_t>(from.size()) != elements) {
    throw std::logic_error(
        fmt::format("a batch has {} {}, the program takes {}", from.size(), what, elements));
  }
  std::copy(from.begin(), from.end(), to);
}

}  // namespace

void CpuProgram::load_batch(const runtime::Batch& batch, float inv_count) {
  const models::Interface& io = compiled_.interface;
  auto elements = [&](ir::ValueId id) { return element_count(compiled_.graph.value(id).shape); };
  if (io.tokens != ir::kNoValue)
    copy_in("tokens", batch.tokens, pointer<int32_t>(io.tokens), elements(io.tokens));
  if (io.features != ir::kNoValue)
    copy_in("features", batch.features, pointer<float>(io.features), elements(io.features));
  if (compiled_.graph.value(io.targets).dtype == ir::DType::i32) {
    copy_in("targets", batch.targets, pointer<int32_t>(io.targets), elements(io.targets));
  } else {
    copy_in("targets", batch.float_targets, pointer<float>(io.targets), elements(io.targets));
  }
  *pointer<float>(io.inv_count) = inv_count;
}

void CpuProgram::micro_step(const runtime::Batch& batch, float inv_count) {
  load_batch(batch, inv_count);
  run("micro_step");
}

void CpuProgram::update() {
  if (unread_result_) throw std::logic_error("a step was begun before the last one's result was read");
  run("update");
  unread_result_ = true;
}

runtime::StepResult CpuProgram::finish_step() {
  if (!std::exchange(unread_result_, false)) throw std::logic_error("no step is unfinished");
  const optimizers::Metrics& m = compiled_.metrics;
  runtime::StepResult result{*pointer<float>(m.step_loss), *pointer<float>(m.grad_norm),
                             *pointer<float>(m.learning_rate)};
  if (m.loss_scale != ir::kNoValue) {
    result.loss_scale = *pointer<float>(m.loss_scale);
    result.skipped = *pointer<int32_t>(m.skipped) != 0;
  }
  return result;
}

double CpuProgram::evaluate(const runtime::Batch& batch) {
  load_batch(batch, 1.0f);
  run("evaluate");
  return *pointer<float>(compiled_.interface.eval_loss);
}

std::span<const float> CpuProgram::next_logits(std::span<const int32_t> prompt, int64_t position) {
  const models::Interface& io = compiled_.interface;
  int32_t* tokens = pointer<int32_t>(io.prompt);
  std::fill_n(tokens, context_length(), 0);
  std::copy(prompt.begin(), prompt.end(), tokens);
  *pointer<int32_t>(io.position) = static_cast<int32_t>(position);
  run("generate");
  return {pointer<float>(io.logits),
          static_cast<size_t>(element_count(compiled_.graph.value(io.logits).shape))};
}

std::vector<runtime::NamedTensor> CpuProgram::parameters() {
  return parameter_tensors(compiled_, reinterpret_cast<uint64_t>(arena_));
}

std::vector<runtime::NamedTensor> CpuProgram::optimizer_state() {
  return optimizer_tensors(compiled_, reinterpret_cast<uint64_t>(arena_));
}

void CpuProgram::download(const runtime::NamedTensor& tensor, std::span<std::byte> to) {
  std::memcpy(to.data(), reinterpret_cast<const std::byte*>(tensor.address), to.size());
}

void CpuProgram::upload(const runtime::NamedTensor& tensor, std::span<const std::byte> from) {
  std::memcpy(reinterpret_cast<std::byte*>(tensor.address), from.data(), from.size());
}

runtime::Counters CpuProgram::counters() const {
  return {*pointer<int32_t>(compiled_.graph.find("step")), *pointer<uint32_t>(compiled_.interface.rng_step)};
}

void CpuProgram::set_counters(const runtime::Counters& counters) {
  *pointer<int32_t>(compiled_.graph.find("step")) = static_cast<int32_t>(counters.step);
  *pointer<uint32_t>(compiled_.interface.rng_step) = static_cast<uint32_t>(counters.rng_step);
}

// 6 N + 6 * layers * width * T, as llm.c counts: N weights of matrix products, attention's mask counted once.
double CpuProgram::flop_per_target() const {
  double weights = 0;
  for (const ir::Value& value : compiled_.graph.values) {
    if (!value.parameter || value.shape.size() != 2) continue;
    const bool only_looked_up =
        value.name == "position_embedding" ||
        (value.name == "token_embedding" && !compiled_.spec.model.tie_word_embeddings);
    if (!only_looked_up) weights += static_cast<double>(element_count(value.shape) * value.slots);
  }
  const spec::Model& m = compiled_.spec.model;
  return 6 * weights + 6.0 * static_cast<double>(m.num_hidden_layers * m.num_attention_heads * m.head_dim *
                                                 compiled_.spec.train.sequence_len);
}

std::vector<float> CpuProgram::read(ir::ValueId value, int slot) const {
  const float* data = pointer<float>(value, slot);
  return {data, data + element_count(compiled_.graph.value(value).shape)};
}

void CpuProgram::write(ir::ValueId value, int slot, std::span<const float> data) {
  std::copy(data.begin(), data.end(), pointer<float>(value, slot));
}

}  // namespace hydrac::targets
