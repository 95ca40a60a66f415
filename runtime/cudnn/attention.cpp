#include "runtime/cudnn/attention.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/cuda/memory.h"
#include "runtime/cudnn/attention_graph.h"
#include "runtime/cudnn/forward_bench.h"
#include "runtime/cudnn/plan_cache.h"
#include "runtime/cudnn/planner.h"
#include "runtime/program/after_call.h"

namespace hydrac::runtime::cudnn {
namespace {

constexpr int kMeasuredPlans = 3;
constexpr double kClearlyFaster = 0.98;    // of the favourite's time: less replaces it
constexpr const char* kSection = "cudnn";  // of recorded choices
// Choice among cuDNN's plans: its favourite, or the fastest of the first few.
enum class Choice { favourite, fastest };

// The addresses that a plan reads and writes, by the ids of its graph.
class VariantPack {
 public:
  void add(std::int64_t id, const void* address) {
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0 || address == nullptr) {
      throw std::logic_error(fmt::format(
          "attention through cuDNN: the address of tensor {} is {}, null or no multiple of 16", id, address));
    }
    add_unchecked(id, address);
  }
  // By value: host memory, read while the work is queued. cuDNN takes all addresses as writable.
  void add(const Scalar& scalar) { add_unchecked(scalar.id, &scalar.value); }

  void execute(const Library& library, abi::Handle handle, const Descriptor& plan, void* workspace) const {
    Descriptor pack(library, abi::DescriptorType::variant_pack);
    pack.set_all(abi::Attribute::variant_pack_unique_ids, ids_);
    pack.set_all(abi::Attribute::variant_pack_pointers, addresses_);
    pack.set(abi::Attribute::variant_pack_workspace, workspace);
    pack.finalize("the list of addresses");
    library.check(library.execute(handle, plan.get(), pack.get()), "run attention");
  }

 private:
  void add_unchecked(std::int64_t id, const void* address) {
    ids_.push_back(id);
    addresses_.push_back(const_cast<void*>(address));
  }

  std::vector<std::int64_t> ids_;
  std::vector<void*> addresses_;
};

}  // namespace

Strides dense(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim) {
  return {tokens * heads * head_dim, heads * head_dim, head_dim};
}

struct Plan::Impl {
  std::shared_ptr<const Library> library;  // outlives the descriptors
  AttentionProblem problem;
  bool backward = false;
  bool with_lengths = false;
  EnginePlan engine;
  std::vector<Scalar> scalars;
  // The workspace, from its start: the engine's, then what the graph keeps there (backward only).
  std::int64_t row_sums_at = 0, d_q_sums_at = 0, lengths_at = 0, workspace_bytes = 0;
};

std::int64_t Plan::workspace_bytes() const {
  return impl_->workspace_bytes;
}
const std::string& Plan::engine() const {
  return impl_->engine.engine;
}
std::string Plan::description() const {
  return fmt::format("{} {}, workspace {:.1f} MiB", impl_->library->name(), engine(),
                     static_cast<double>(workspace_bytes()) / (1 << 20));
}

struct CudnnAttention::Impl {
  std::shared_ptr<const Library> library;
  cuda::DeviceInfo device;
  PlanCache cache;
  abi::Handle handle = nullptr;
  std::map<std::tuple<bool, AttentionProblem, Choice>, Plan> plans;  // by pass, problem and choice
  RecordedChoices recorded;                                          // empty unless of this library and GPU
  RecordedChoices used;

  ~Impl() {
    if (handle != nullptr) library->destroy(handle);
  }

  void check_supported(bool backward, const AttentionProblem& problem) const {
    const int capability = device.capability;
    if (const auto reason = unsupported_reason(problem, capability, backward))
      throw UnsupportedError(*reason);
    if (backward && problem.deterministic && capability / 10 == 10 && library->version() < 91800) {
      throw UnsupportedError(
          fmt::format("{} has no deterministic gradients of attention on a GPU of compute capability "
                      "{}.{}: install cuDNN 9.18.0 or newer, or use the generated attention",
                      library->name(), capability / 10, capability % 10));
    }
  }

  bool with_lengths(bool backward, const AttentionProblem& problem) const {
    return backward && needs_lengths(problem, library->version());
  }

  OperationGraph graph_of(bool backward, const AttentionProblem& problem) const {
    check_supported(backward, problem);
    return backward ? backward_graph(*library, handle, problem, with_lengths(backward, problem))
                    : forward_graph(*library, handle, problem);
  }

  Plan finish(bool backward, const AttentionProblem& problem, EnginePlan engine,
              const std::vector<Scalar>& scalars) const {
    auto plan = std::make_shared<Plan::Impl>(
        Plan::Impl{library, problem, backward, with_lengths(backward, problem), std::move(engine), scalars});
    lay_out_workspace(*plan);
    return Plan(std::move(plan));
  }

  static void lay_out_workspace(Plan::Impl& plan) {
    plan.row_sums_at = cuda::aligned(plan.engine.workspace_bytes);
    plan.workspace_bytes = plan.row_sums_at;
    if (!plan.backward) return;
    plan.d_q_sums_at = plan.row_sums_at + cuda::aligned(row_sums_bytes(plan.problem));
    plan.lengths_at = plan.d_q_sums_at + cuda::aligned(d_q_sums_bytes(plan.problem));
    plan.workspace_bytes =
        plan.lengths_at + (plan.with_lengths ? cuda::aligned(lengths_bytes(plan.problem)) : 0);
  }

  // The favourite first.
  std::vector<Plan> forward_plans(const AttentionProblem& problem, const OperationGraph& graph,
                                  int count) const {
    std::vector<Plan> made;
    for (EnginePlan& engine : make_plans(*library, handle, graph, problem.deterministic, count)) {
      made.push_back(finish(false, problem, std::move(engine), graph.scalars));
    }
    return made;
  }

  std::string cache_key(const OperationGraph& graph, bool deterministic, Choice choice) const {
    return fmt::format("{}; {}, compute capability {}, {} multiprocessors, driver {}; graph {:016x}{}; {}",
                       library->name(), device.name, device.capability, device.sms, device.driver_version,
                       graph.descriptor.content(), deterministic ? " deterministic" : "",
                       choice == Choice::favourite ? "any engine" : "the fastest engine");
  }

  void import(const RecordedChoices& choices) {
    used.set(kSection, "library", library->name());
    used.set(kSection, "gpu", device.name);
    const auto same = [&](const char* key) {
      return choices.find(kSection, key) == used.find(kSection, key);
    };
    if (same("library") && same("gpu")) recorded = choices;
  }

  // "backward B64 T1024 H12 K12 D64 bf16 causal, graph 0123456789abcdef": under what an engine is recorded.
  static std::string recorded_key(bool backward, const AttentionProblem& p, const OperationGraph& graph) {
    return fmt::format("{} B{} T{} H{} K{} D{} {}{}{}, graph {:016x}", backward ? "backward" : "forward",
                       p.batch, p.tokens, p.heads, p.kv_heads, p.head_dim, p.bf16 ? "bf16" : "f16",
                       p.causal ? " causal" : "", p.deterministic ? "" : " in any order",
                       graph.descriptor.content());
  }

  // The engine that a checkpoint records; nullopt where there is none, or this cuDNN does not have it.
  std::optional<EnginePlan> recorded_plan(bool backward, const AttentionProblem& problem,
                                          const OperationGraph& graph) const {
    const auto engine = recorded.find(kSection, recorded_key(backward, problem, graph));
    if (!engine) return std::nullopt;
    for (const Choice choice : {Choice::favourite, Choice::fastest}) {
      std::optional<EnginePlan> stored = read(cache_key(graph, problem.deterministic, choice));
      if (stored && stored->engine == *engine) return stored;
    }
    return make_plan_of(*engine, *library, handle, graph, problem.deterministic);
  }

  // Remembers the plan, for this process and for checkpoints.
  Plan keep(bool backward, const AttentionProblem& problem, Choice choice, const OperationGraph& graph,
            Plan plan) {
    used.set(kSection, recorded_key(backward, problem, graph), plan.engine());
    return plans.emplace(std::tuple(backward, problem, choice), std::move(plan)).first->second;
  }

  std::optional<EnginePlan> read(const std::string& key) const {
    const std::optional<StoredPlan> stored = cache.read(key);
    if (!stored) return std::nullopt;
    try {
      return plan_from_json(*library, handle, stored->json, stored->engine);
    } catch (const RunError&) {
      return std::nullopt;  // cuDNN's own checks found it stale: it is made anew, by the same choice
    }
  }

  EnginePlan make_or_read_favourite(const OperationGraph& graph, bool deterministic) const {
    const std::string key = cache_key(graph, deterministic, Choice::favourite);
    if (std::optional<EnginePlan> stored = read(key)) return std::move(*stored);
    EnginePlan plan = std::move(make_plans(*library, handle, graph, deterministic, 1).front());
    if (cache.on()) cache.write(key, {plan.engine, plan_json(plan)});
    return plan;
  }

  Plan favourite(bool backward, const AttentionProblem& problem) {
    const auto key = std::tuple(backward, problem, Choice::favourite);
    const auto found = plans.find(key);
    if (found != plans.end()) return found->second;
    const OperationGraph graph = graph_of(backward, problem);
    std::optional<EnginePlan> engine = recorded_plan(backward, problem, graph);
    if (!engine) engine = make_or_read_favourite(graph, problem.deterministic);
    return keep(backward, problem, Choice::favourite, graph,
                finish(backward, problem, std::move(*engine), graph.scalars));
  }

  void start(const Plan::Impl& plan, bool backward, const void* workspace, const cuda::Stream& stream) const {
    if (plan.backward != backward) {
      throw std::logic_error(
          backward ? "a plan of attention's forward pass was given the addresses of its gradients"
                   : "a plan of attention's gradients was given the addresses of its forward pass");
    }
    const auto address = reinterpret_cast<std::uintptr_t>(workspace);
    if (plan.workspace_bytes > 0 && (address == 0 || address % cuda::kAlignment != 0)) {
      throw std::logic_error(
          fmt::format("the workspace of attention through cuDNN is at {}, null or no multiple of {}",
                      workspace, cuda::kAlignment));
    }
    library->check(library->set_stream(handle, stream.handle()), "take the stream");
  }
};

CudnnAttention::CudnnAttention(const cuda::DeviceInfo& device, std::filesystem::path cache_dir,
                               const RecordedChoices& recorded)
    : impl_(new Impl{std::make_shared<const Library>(), device, PlanCache(std::move(cache_dir))}) {
  impl_->import(recorded);
  impl_->library->check(impl_->library->create(&impl_->handle), "start in this CUDA context");
}
CudnnAttention::~CudnnAttention() = default;
CudnnAttention::CudnnAttention(CudnnAttention&&) noexcept = default;
CudnnAttention& CudnnAttention::operator=(CudnnAttention&&) noexcept = default;

std::string CudnnAttention::name() const {
  return impl_->library->name();
}

RecordedChoices CudnnAttention::choices() const {
  return impl_->used;
}

Plan CudnnAttention::forward(const AttentionProblem& problem) {
  return impl_->favourite(false, problem);
}
Plan CudnnAttention::backward(const AttentionProblem& problem) {
  return impl_->favourite(true, problem);
}
Plan CudnnAttention::fastest_forward(const AttentionProblem& problem, const cuda::Stream& stream,
                                     std::byte* scratch, std::int64_t scratch_bytes) {
  if (!is_worth_measuring(problem)) return forward(problem);
  const auto remembered = std::tuple(false, problem, Choice::fastest);
  if (const auto found = impl_->plans.find(remembered); found != impl_->plans.end()) return found->second;
  const OperationGraph graph = impl_->graph_of(false, problem);
  const std::string key = impl_->cache_key(graph, problem.deterministic, Choice::fastest);
  std::optional<EnginePlan> known = impl_->recorded_plan(false, problem, graph);
  if (!known) known = impl_->read(key);
  if (known) {
    return impl_->keep(false, problem, Choice::fastest, graph,
                       impl_->finish(false, problem, std::move(*known), graph.scalars));
  }
  const std::vector<Plan> plans = impl_->forward_plans(problem, graph, kMeasuredPlans);
  const std::int64_t workspace = plans.front().workspace_bytes();
  if (ForwardBench::bytes(problem, workspace) > scratch_bytes)
    return impl_->keep(false, problem, Choice::favourite, graph, plans.front());
  const ForwardBench bench(problem, scratch, stream);
  const Plan* best = nullptr;
  double best_ms = 0;
  for (const Plan& plan : plans) {
    if (plan.workspace_bytes() > workspace) continue;
    const double ms =
        bench.ms([&](const ForwardPointers& pointers, void* at) { run(plan, pointers, at, stream); });
    if (best != nullptr && ms >= kClearlyFaster * best_ms) continue;
    best = &plan;
    best_ms = ms;
  }
  if (impl_->cache.on()) impl_->cache.write(key, {best->engine(), plan_json(best->impl_->engine)});
  return impl_->keep(false, problem, Choice::fastest, graph, *best);
}

void CudnnAttention::run(const Plan& plan, const ForwardPointers& pointers, void* workspace,
                         const cuda::Stream& stream) {
  const Plan::Impl& p = *plan.impl_;
  before_call(stream.handle());
  impl_->start(p, false, workspace, stream);
  VariantPack pack;
  pack.add(kQ, pointers.q);
  pack.add(kK, pointers.k);
  pack.add(kV, pointers.v);
  pack.add(kOut, pointers.out);
  pack.add(kLse, pointers.lse);
  for (const Scalar& scalar : p.scalars) pack.add(scalar);
  pack.execute(*impl_->library, impl_->handle, p.engine.descriptor, workspace);
  after_call(stream.handle());
}

void CudnnAttention::run(const Plan& plan, const BackwardPointers& pointers, void* workspace,
                         const cuda::Stream& stream) {
  const Plan::Impl& p = *plan.impl_;
  before_call(stream.handle());
  impl_->start(p, true, workspace, stream);
  std::byte* const scratch = static_cast<std::byte*>(workspace);
  VariantPack pack;
  pack.add(kQ, pointers.q);
  pack.add(kK, pointers.k);
  pack.add(kV, pointers.v);
  pack.add(kOut, pointers.out);
  pack.add(kDOut, pointers.d_out);
  pack.add(kLse, pointers.lse);
  pack.add(kDQ, pointers.d_q);
  pack.add(kDK, pointers.d_k);
  pack.add(kDV, pointers.d_v);
  pack.add(kRowSums, scratch + p.row_sums_at);
  if (!p.problem.deterministic) pack.add(kDQSums, scratch + p.d_q_sums_at);
  if (p.with_lengths) {
    cuda::fill_words(scratch + p.lengths_at, static_cast<std::uint32_t>(p.problem.tokens),
                     lengths_bytes(p.problem), stream);
    pack.add(kLengths, scratch + p.lengths_at);
    pack.add(kKvLengths, scratch + p.lengths_at);
  }
  for (const Scalar& scalar : p.scalars) pack.add(scalar);
  pack.execute(*impl_->library, impl_->handle, p.engine.descriptor, scratch);
  after_call(stream.handle());
}

void require_workspace(const Plan& plan, std::int64_t bytes) {
  if (plan.workspace_bytes() <= bytes) return;
  throw RunError(
      fmt::format("{} needs {} bytes of workspace, and the program was planned with {}: emit it with "
                  "attention: generated, "
                  "or use the version of cuDNN that it was planned for",
                  plan.description(), plan.workspace_bytes(), bytes));
}

}  // namespace hydrac::runtime::cudnn
