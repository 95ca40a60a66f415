#include "targets/cuda/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "runtime/error.h"
#include "runtime/log/units.h"
#include "program/branches.h"

namespace hydrac::targets {

using program::Call;
namespace cuda = runtime::cuda;

namespace {

cuda::ElementType element_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f32:
      return cuda::ElementType::f32;
    case ir::DType::bf16:
      return cuda::ElementType::bf16;
    case ir::DType::f16:
      return cuda::ElementType::f16;
    default:
      throw std::logic_error("no product of integers");
  }
}

// The product as iteration `iteration` of its section computes it.
program::GemmShape shape_at(program::GemmShape shape, int iteration) {
  shape.accumulate = shape.accumulates(iteration);
  shape.first_overwrites = false;
  return shape;
}

cuda::GemmProblem problem_of(const program::GemmShape& shape, bool tf32) {
  cuda::GemmProblem problem;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  problem.transpose_a = shape.transpose_a;
  problem.transpose_b = shape.transpose_b;
  problem.a = element_type(shape.a);
  problem.b = element_type(shape.b);
  problem.c = problem.d = element_type(shape.c);
  problem.tf32 = tf32;
  problem.beta = shape.accumulate ? 1.0f : 0.0f;
  problem.epilogue = shape.bias ? cuda::Epilogue::bias : cuda::Epilogue::none;
  return problem;
}

}  // namespace

struct CudaProgram::Step {
  const program::Section* section = nullptr;
  const Call* call = nullptr;
  int layer = 0;
  std::vector<void*> arguments;
  std::vector<program::Access> accesses;
  const cuda::Gemm* product = nullptr;
  std::optional<runtime::cudnn::Plan> attention;
};

CudaProgram::CudaProgram(driver::Compiled compiled, CudaMachine& machine)
    : Executable(std::move(compiled)), machine_(machine), monitor_(machine.device().pci_bus_id) {
  const driver::Compiled& c = this->compiled();
  const int64_t wanted = c.plan.arena_bytes, free = machine_.context().free_bytes();
  if (wanted > free) {
    throw runtime::RunError(
        fmt::format("the plan needs {} of GPU memory, and {} of {} are free on {}: lower "
                    "train.micro_batch_size (and raise "
                    "gradient_accumulation_steps), or set optimizations.recompute: block",
                    runtime::human_bytes(static_cast<uint64_t>(wanted)),
                    runtime::human_bytes(static_cast<uint64_t>(free)),
                    runtime::human_bytes(static_cast<uint64_t>(machine_.context().total_bytes())),
                    machine_.device().name));
  }
  arena_ = cuda::DeviceBuffer(wanted);
  measured_bytes_ = free - machine_.context().free_bytes();
  // PTX of an older arch runs on a newer GPU; its machine code would not.
  const auto kind = machine_.device().capability == machine_.target().capability ? cuda::CodeKind::cubin
                                                                                 : cuda::CodeKind::ptx;
  kernels_ = load_kernels(c.program, machine_.target().capability, kind, machine_.cache_dir());
  plan_products();
  resolve();
  staging_ =
      std::make_unique<Staging>(c, kInFlight * c.spec.train.gradient_accumulation_steps + 1, kInFlight);
  if (c.spec.optimizations.cuda_graph) prepare_all();
}

CudaProgram::~CudaProgram() = default;

void CudaProgram::plan_products() {
  for (const program::Function& function : compiled().program.functions) {
    for (const program::Section& section : function.sections) {
      for (const Call& call : section.calls) {
        if (call.kind != Call::Kind::gemm) continue;
        for (int iteration : {0, 1}) plan_product(shape_at(call.gemm, iteration));
      }
    }
  }
}

void CudaProgram::plan_product(const program::GemmShape& shape) {
  if (products_.contains(shape)) return;
  cuda::GemmLibrary& gemms = machine_.gemms();
  const cuda::GemmProblem problem =
      problem_of(shape, compiled().spec.optimizations.precision == spec::Precision::tf32);
  cuda::DeviceRange scratch{arena_.data(), arena_.bytes()};
  if (!gemms.remembers(problem) && gemms.scratch_bytes(problem) > scratch.bytes) scratch = {};
  products_.emplace(shape, gemms.plan(problem, stream_, scratch));
}

void CudaProgram::resolve() {
  const driver::Compiled& c = compiled();
  for (const program::Function& function : c.program.functions) {
    std::vector<Step>& steps = steps_[function.name];
    for (const program::Section& section : function.sections) {
      const int iterations = std::max(section.layers, 1);
      for (int i = 0; i < iterations; ++i) {
        const int layer = section.reverse ? iterations - 1 - i : i;
        for (const Call& call : section.calls) {
          Step step{&section, &call, layer, {}, {}, nullptr, std::nullopt};
          for (size_t a = 0; a < call.arguments.size(); ++a) {
            const int64_t first = plan::address(c.graph, c.plan, call.arguments[a], layer);
            step.arguments.push_back(arena_.data() + first);
            step.accesses.push_back(
                {first, first + plan::extent(c.graph, call.arguments[a]), call.writes[a]});
          }
          if (call.kind == Call::Kind::gemm) step.product = &products_.at(shape_at(call.gemm, i));
          if (call.kind == Call::Kind::attention) step.attention = machine_.attention_plan(call.attention);
          steps.push_back(std::move(step));
        }
      }
    }
  }
}

void CudaProgram::execute(const Step& step, const cuda::Stream& stream) const {
  const std::vector<void*>& a = step.arguments;
  switch (step.call->kind) {
    case Call::Kind::launch: {
      const program::Kernel& kernel = compiled().program.kernels[step.call->kernel];
      std::vector<void*> parameters;
      for (void* const& pointer : a) parameters.push_back(const_cast<void**>(&pointer));
      int layer = step.layer;
      if (kernel.takes_layer) parameters.push_back(&layer);
      cuda::LaunchShape shape;
      shape.grid.x = kernel.launch.grid;
      shape.block.x = kernel.launch.block;
      shape.dynamic_shared_bytes = kernel.launch.shared_bytes;
      cuda::launch(kernels_.kernels[step.call->kernel], shape, parameters.data(), stream);
      return;
    }
    case Call::Kind::gemm: {
      cuda::GemmArguments arguments;
      arguments.a = a[0];
      arguments.b = a[1];
      arguments.d = a[2];
      if (step.call->gemm.bias) arguments.bias = a[4];
      machine_.gemms().run(*step.product, arguments, stream, a[3]);
      return;
    }
    case Call::Kind::attention: {
      if (step.call->attention.backward) {
        machine_.attention().run(
            *step.attention,
            runtime::cudnn::BackwardPointers{a[3], a[4], a[5], a[1], a[0], static_cast<const float*>(a[2]),
                                             a[6], a[7], a[8]},
            a[9], stream);
      } else {
        machine_.attention().run(
            *step.attention,
            runtime::cudnn::ForwardPointers{a[0], a[1], a[2], a[3], static_cast<float*>(a[4])}, a[5], stream);
      }
      return;
    }
  }
}

// Records both branches of a graph: the second forks from the first where it must wait for it, and ends
// joined to it.
void CudaProgram::execute_branches(const std::vector<Step>& steps) const {
  std::vector<program::BranchStep> branches;
  for (const Step& step : steps) branches.push_back({step.accesses, step.call->branch});
  const std::vector<int> waits = program::waits_between_branches(branches);
  const std::set<int> awaited(waits.begin(), waits.end());
  std::map<int, cuda::Event> events;
  const cuda::Stream* streams[] = {&stream_, &beside_};
  bool forked = false;
  for (size_t i = 0; i < steps.size(); ++i) {
    const cuda::Stream& stream = *streams[branches[i].branch];
    if (branches[i].branch == 1 && !forked) {
      cuda::Event start;
      start.record(stream_);
      beside_.wait(start);
      forked = true;
    }
    if (waits[i] >= 0) stream.wait(events.at(waits[i]));
    execute(steps[i], stream);
    if (awaited.contains(static_cast<int>(i))) events[static_cast<int>(i)].record(stream);
  }
  if (!forked) return;
  cuda::Event end;
  end.record(beside_);
  stream_.wait(end);
}

// `functions`: one, or several joined by '+' that are one graph; here and below.
void CudaProgram::execute_all(const std::string& functions) const {
  for (size_t at = 0; at <= functions.size();) {
    const size_t plus = std::min(functions.find('+', at), functions.size());
    const std::string function = functions.substr(at, plus - at);
    const std::vector<Step>& steps = steps_.at(function);
    if (checking()) {
      run_checked(function);
    } else if (compiled().spec.optimizations.cuda_graph) {
      execute_branches(steps);
    } else {
      for (const Step& step : steps) execute(step, stream_);
    }
    at = plus + 1;
  }
}

void CudaProgram::prepare(const std::string& functions) const {
  if (graphs_.contains(functions)) return;
  graphs_.emplace(functions, cuda::Graph::capture(stream_, [&] { execute_all(functions); }));
}

// Graphs take memory of the GPU, and so does a library's kernel when it is first met: now, or never.
void CudaProgram::prepare_all() const {
  const bool one_graph = compiled().spec.train.gradient_accumulation_steps == 1;
  if (one_graph) prepare("micro_step+update");
  for (const auto& [function, steps] : steps_) {
    const bool in_step = function == "micro_step" || function == "update";
    if (function != "load" && !(one_graph && in_step)) prepare(function);
  }
}

void CudaProgram::run(const std::string& functions) const {
  if (checking() || !compiled().spec.optimizations.cuda_graph) return execute_all(functions);
  prepare(functions);
  graphs_.at(functions).launch(stream_);
}

void CudaProgram::step_through(const std::string& function, const AfterCall& go_on) const {
  for (const Step& step : steps_.at(function)) {
    const CallPlace place{*step.section, *step.call, step.layer};
    try {
      execute(step, stream_);
      stream_.synchronize();
    } catch (const runtime::RunError& error) {
      throw runtime::RunError(fmt::format("{} failed: {}", to_text(compiled(), place), error.what()));
    }
    if (!go_on(place)) return;
  }
}

Executable::LastRun CudaProgram::last_run() const {
  if (evaluated_) return {};
  return {staging_->finished_inputs(),
          staging_->later_steps() * compiled().spec.train.gradient_accumulation_steps};
}

void CudaProgram::run_once(const std::string& function) {
  for (const Step& step : steps_.at(function)) execute(step, stream_);
  stream_.synchronize();
}

// A step of one micro-batch is one graph, so its forward and backward pass wait for update().
void CudaProgram::micro_step(const runtime::Batch& batch, float inv_count) {
  refresh_working_copy();
  evaluated_ = false;
  staging_->upload(batch, inv_count, arena_.data(), stream_);
  pending_ = compiled().spec.train.gradient_accumulation_steps == 1;
  if (!pending_) run("micro_step");
}

void CudaProgram::update() {
  run(std::exchange(pending_, false) ? "micro_step+update" : "update");
  staging_->download_result(arena_.data(), stream_);
}

void CudaProgram::flush() const {
  if (std::exchange(pending_, false)) run("micro_step");
}

// What fails on the GPU shows where the host next waits for it; by then nobody knows which call it was.
runtime::StepResult CudaProgram::finish_step() {
  try {
    return staging_->oldest_result();
  } catch (const runtime::RunError& error) {
    throw runtime::RunError(
        fmt::format("{}\n`hydrac run` with --check-kernels names the kernel that fails", error.what()));
  }
}

std::vector<double> CudaProgram::take_step_times() {
  return staging_->take_step_times();
}

double CudaProgram::evaluate(const runtime::Batch& batch) {
  refresh_working_copy();
  evaluated_ = true;
  staging_->upload(batch, 1.0f, arena_.data(), stream_);
  run("evaluate");
  return read_scalar<float>(compiled().interface.eval_loss);
}

std::span<const float> CudaProgram::next_logits(std::span<const int32_t> prompt, int64_t position) {
  refresh_working_copy();
  const models::Interface& io = compiled().interface;
  std::vector<int32_t> tokens(static_cast<size_t>(context_length()), 0);
  std::ranges::copy(prompt, tokens.begin());
  copy_in(offset(io.prompt), std::as_bytes(std::span(tokens)));
  write_scalar(io.position, static_cast<int32_t>(position));
  run("generate");
  logits_ = read(io.logits, 0);
  return std::span(logits_).first(static_cast<size_t>(compiled().spec.model.vocab_size));
}

void CudaProgram::copy_out(int64_t offset, std::span<std::byte> to) const {
  flush();
  stream_.synchronize();
  cuda::copy_to_host(to.data(), arena_.data() + offset, static_cast<int64_t>(to.size()));
}

void CudaProgram::copy_in(int64_t offset, std::span<const std::byte> from) {
  flush();
  stream_.synchronize();
  cuda::copy_to_device(arena_.data() + offset, from.data(), static_cast<int64_t>(from.size()));
}

void CudaProgram::clear_persistent() {
  cuda::fill_bytes(arena_.data(), 0, compiled().plan.persistent_bytes, stream_);
  stream_.synchronize();
}

std::vector<CallTime> CudaProgram::timed(const std::string& function) {
  const std::vector<Step>& steps = steps_.at(function);
  std::vector<cuda::Event> events;
  for (size_t i = 0; i <= steps.size(); ++i) events.emplace_back(cuda::Event::Use::timing);
  events[0].record(stream_);
  for (size_t i = 0; i < steps.size(); ++i) {
    execute(steps[i], stream_);
    events[i + 1].record(stream_);
  }
  stream_.synchronize();
  std::vector<CallTime> times;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Call& call = *steps[i].call;
    times.push_back({steps[i].section->name, name_of(compiled().program, call), call.label,
                     events[i + 1].ms_since(events[i]) * 1e-3, call.flop, call.bytes});
  }
  return times;
}

std::string CudaProgram::description() const {
  const size_t count = kernels_.kernels.size();
  return fmt::format("{} kernels for {} in {:.1f} s ({} from the cache), products by {}{}", count,
                     machine_.device().name, kernels_.seconds, kernels_.from_cache,
                     machine_.gemms().version(), monitor_.note().empty() ? "" : "; " + monitor_.note());
}

double CudaProgram::peak_flops() const {
  const Target& target = machine_.target();
  switch (compiled().spec.optimizations.precision) {
    case spec::Precision::fp32:
      return target.fp32_tflops * 1e12;
    case spec::Precision::tf32:
      return target.tf32_tflops * 1e12;
    case spec::Precision::bf16:
      return target.bf16_tflops * 1e12;
    case spec::Precision::fp16:
      return target.fp16_tflops * 1e12;
    case spec::Precision::fp8:
      return target.fp8_tflops * 1e12;
  }
  return 0;
}

std::optional<runtime::DeviceLoad> CudaProgram::device_load() {
  const std::optional<cuda::GpuSample> sample = monitor_.sample();
  if (!sample) return std::nullopt;
  return runtime::DeviceLoad{sample->utilization_percent / 100.0, sample->memory_used_bytes};
}

}  // namespace hydrac::targets
