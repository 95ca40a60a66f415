#include "driver/fit_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "driver/floor.h"
#include "runtime/error.h"
#include "runtime/log/units.h"
#include "targets/target.h"

namespace hydrac::driver {

namespace {

using passes::RecomputeChoice;

std::string human(int64_t bytes) {
  return runtime::human_bytes(static_cast<uint64_t>(bytes));
}

// Installed memory, or what a container (control groups, both versions) is allowed of it.
int64_t machine_memory() {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t allowed = 0;  // "max" is no number: no limit
    if (std::ifstream(file) >> allowed && allowed > 0) bytes = std::min(bytes, allowed);
  }
  return bytes;
}

// Choices that differ in what they compute again, `none` first. The mlp includes its activation, attention
// the norm of queries and keys.
std::vector<RecomputeChoice> all_choices(const spec::Spec& spec) {
  std::vector<RecomputeChoice> choices;
  for (const auto& [qk_norm, attn] : {std::pair(false, false), {true, false}, {false, true}}) {
    if (qk_norm && !spec.model.qk_norm) continue;
    for (const auto& [act, mlp] : {std::pair(false, false), {true, false}, {false, true}}) {
      for (const bool norm : {false, true})
        choices.push_back({.norm = norm, .act = act, .attn = attn, .mlp = mlp, .qk_norm = qk_norm});
    }
  }
  choices.push_back({.block = true});
  return choices;
}

// Operations that the target does in the time in which it moves a byte.
double flop_per_byte(const spec::Spec& spec) {
  const targets::Target& target = *targets::find(spec.target);
  if (target.bandwidth_gbs == 0) return target.is_cpu() ? 10 : 150;  // typical: not known here
  const Peaks peaks = peaks_of(target, spec.optimizations.precision);
  return peaks.flops / peaks.bytes_per_second;
}

// The time of a micro-step on an ideal machine, in bytes it could move: each call takes as long as its
// operations or its traffic, whichever is longer.
double work_of(const Compiled& c) {
  const double balance = flop_per_byte(c.spec);
  double work = 0;
  for (const program::Function& function : c.program.functions) {
    if (function.name != "micro_step") continue;
    for (const program::Section& section : function.sections) {
      for (const program::Call& call : section.calls)
        work += std::max(section.layers, 1) * std::max(call.flop / balance, call.bytes);
    }
  }
  return work;
}

struct Candidate {
  RecomputeChoice choice;
  double work = 0;
  int64_t bytes = 0;
};

// In the order of their work; only `none` where that fits, since no other does less.
std::vector<Candidate> candidates_of(const spec::Spec& spec, CompileOptions options,
                                     const MemoryLimit& limit) {
  options.dump_dir.clear();
  std::vector<Candidate> candidates;
  for (const RecomputeChoice& choice : all_choices(spec)) {
    const Compiled c = compile(spec, choice, options);
    candidates.push_back({choice, work_of(c), c.plan.device_bytes()});
    if (!choice.any() && limit.allows(c.plan.device_bytes())) break;
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::work);
  return candidates;
}

}  // namespace

int64_t given_memory(const spec::Spec& spec, const CompileOptions& options) {
  const auto limit = static_cast<int64_t>(spec.optimizations.memory_limit * 0x1p30);
  if (limit == 0 || options.memory_bytes == 0) return std::max(limit, options.memory_bytes);
  return std::min(limit, options.memory_bytes);
}

MemoryLimit memory_limit(const spec::Spec& spec, const CompileOptions& options) {
  if (const int64_t given = given_memory(spec, options); given > 0) {
    const bool by_key = given != options.memory_bytes;
    return {given,
            fmt::format("{} {}", by_key ? "optimizations.memory_limit is" : "it may take", human(given))};
  }
  const targets::Target& target = *targets::find(spec.target);
  const int64_t all = target.is_cpu() ? machine_memory() : static_cast<int64_t>(target.memory_gib * 0x1p30);
  if (all == 0) return {0, fmt::format("the memory of {} is not known", target.name)};
  const int64_t reserve = all / 100 * 3 + (int64_t{600} << 20);
  const int64_t ranks = target.is_cpu() ? spec.parallel.data : 1;  // which share this machine's
  const int64_t left = std::max<int64_t>((all - reserve) / ranks, 1);
  return {left,
          fmt::format("{} has {} for {} ({}, less {} for {})", target.is_cpu() ? "this machine" : target.name,
                      human(left), ranks == 1 ? "it" : fmt::format("each of {} ranks", ranks), human(all),
                      human(reserve),
                      target.is_cpu() ? "the rest of the process" : "the CUDA context and libraries")};
}

Compiled compile_to_fit(const spec::Spec& spec, const CompileOptions& options) {
  const MemoryLimit limit = memory_limit(spec, options);
  if (limit.bytes == 0) {
    throw runtime::InputError(
        fmt::format("optimizations.recompute: auto fits the memory, and {}: name the GPU (target: h100) or "
                    "give --memory",
                    limit.source));
  }
  const std::vector<Candidate> candidates = candidates_of(spec, options, limit);
  auto chosen = std::ranges::find_if(candidates, [&](const auto& c) { return limit.allows(c.bytes); });
  if (chosen == candidates.end()) chosen = std::ranges::min_element(candidates, {}, &Candidate::bytes);

  passes::Log log = {{"recompute: auto", fmt::format("to fit {} bytes: {}", limit.bytes, limit.source)}};
  const double least = candidates.front().work;
  for (auto c = candidates.begin(); c != candidates.end(); ++c) {
    const bool fits = limit.allows(c->bytes);
    log.push_back(
        {"recompute: auto", fmt::format("{}: {} bytes, {:.1f}% more work a step, {}{}", to_string(c->choice),
                                        c->bytes, 100 * (c->work / least - 1), fits ? "fits" : "does not fit",
                                        c == chosen ? ": taken" : "")});
    if (fits) break;
  }
  Compiled compiled = compile(spec, chosen->choice, options);
  compiled.decisions.insert(compiled.decisions.begin(), log.begin(), log.end());
  return compiled;
}

namespace {

// Looks for values of keys with which the program fits, by planning it.
class Remedies {
 public:
  Remedies(const Compiled& compiled, const CompileOptions& options, const MemoryLimit& limit)
      : spec_(compiled.spec), choice_(compiled.recompute), options_(options), limit_(limit) {
    options_.dump_dir.clear();
  }

  std::string text() const {
    std::vector<std::string> ways;
    if (const int64_t most = largest_batch(spec_, choice_); most > 0)
      ways.push_back(fmt::format("train.micro_batch_size: {}", most));
    if (can_share_update() && fits(sharing(), choice_)) ways.push_back("parallel.zero: 1");
    const std::optional<RecomputeChoice> choice = other_choice(spec_);
    if (choice) ways.push_back(recompute_key(*choice));
    const bool chunks = can_chunk() && fits(chunked(), choice_);
    if (chunks) ways.push_back(kFusedLinear);
    if (!choice && !chunks && can_chunk()) {
      if (const auto both = other_choice(chunked()))
        ways.push_back(fmt::format("{} and {}", recompute_key(*both), kFusedLinear));
    }
    if (const std::string state = narrow_state(); !state.empty()) ways.push_back(state);
    if (ways.empty()) ways = everything();
    return ways.empty() ? "no micro-batch fits: a smaller model, or a shorter train.sequence_len, may"
                        : fmt::format("it fits with {}", fmt::join(ways, ", or with "));
  }

 private:
  // Asks `fits` of smaller micro-batches first where this one is huge: a head in parts has so many then that
  // planning takes seconds, and memory only grows with the micro-batch.
  template <class Fits>
  static bool fits_from_small(spec::Spec spec, Fits fits) {
    constexpr int64_t kQuicklyPlanned = 1 << 22;  // positions
    const int64_t wanted = spec.train.micro_batch_size;
    std::vector<int64_t> sizes = {wanted};
    while (sizes.back() > 1 && sizes.back() * spec.train.sequence_len > kQuicklyPlanned)
      sizes.push_back(std::max<int64_t>(1, sizes.back() / 16));
    return std::all_of(sizes.rbegin(), sizes.rend(), [&](int64_t size) {
      spec.train.micro_batch_size = size;
      return fits(spec);
    });
  }

  bool fits(const spec::Spec& spec, const RecomputeChoice& choice) const {
    return fits_from_small(spec, [&](const spec::Spec& smaller) {
      return limit_.allows(compile(smaller, choice, options_).plan.device_bytes());
    });
  }

  // 0: not even one sequence fits.
  int64_t largest_batch(spec::Spec spec, const RecomputeChoice& choice) const {
    auto fits_with = [&](int64_t size) {
      spec.train.micro_batch_size = size;
      return fits(spec, choice);
    };
    int64_t fitting = 0, too_large = spec.train.micro_batch_size;
    while (too_large - fitting > 1) {
      const int64_t middle = fitting + (too_large - fitting) / 2;
      (fits_with(middle) ? fitting : too_large) = middle;
    }
    while (fitting > 1 && !may_be_micro_batch(fitting)) --fitting;
    return fitting;
  }

  // A global batch that is given has to be a multiple.
  bool may_be_micro_batch(int64_t size) const {
    const bool is_free =
        !spec_.is_set("train.global_batch_size") && !spec_.is_set("train.global_batch_tokens");
    return is_free || spec_.train.global_batch_size / spec_.parallel.data % size == 0;
  }

  std::optional<RecomputeChoice> other_choice(const spec::Spec& spec) const {
    if (spec.optimizations.recompute.mode == spec::Recompute::Mode::automatic) return std::nullopt;
    std::optional<RecomputeChoice> choice;
    const bool fit = fits_from_small(spec, [&](const spec::Spec& smaller) {
      const Compiled c = compile_to_fit(smaller, options_);
      choice = c.recompute;
      return limit_.allows(c.plan.device_bytes());
    });
    return fit ? choice : std::nullopt;
  }

  bool can_share_update() const {
    return spec_.parallel.data > 1 && spec_.parallel.zero == 0 &&
           spec_.train.optimizer.name != spec::Optimizer::muon;
  }
  spec::Spec sharing() const {
    spec::Spec spec = spec_;
    spec.parallel.zero = 1;
    return spec;
  }

  bool can_chunk() const {
    return spec_.optimizations.loss == spec::LossKernel::materialized &&
           spec_.model.head != spec::Head::regression;
  }
  spec::Spec chunked() const {
    spec::Spec spec = spec_;
    spec.optimizations.loss = spec::LossKernel::fused_linear;
    return spec;
  }

  // Moments of 8 bits, weights and gradients of 16, as few of them as it takes; last, because they change
  // results.
  std::string narrow_state() const {
    const bool has_16_bits = !targets::find(spec_.target)->is_cpu();
    spec::Spec spec = spec_;
    std::vector<std::string> keys;
    const auto narrows = [&](auto& key, auto value, const char* text) {
      if (key == value) return false;
      key = value;
      keys.push_back(text);
      return fits(spec, choice_);
    };
    auto& o = spec.optimizations;
    if (narrows(o.optimizer_state, spec::StateType::int8, "optimizations.optimizer_state: int8") ||
        ((o.precision == spec::Precision::bf16 || o.precision == spec::Precision::fp8) &&
         narrows(o.weights, spec::WeightType::bf16, "optimizations.weights: bf16")) ||
        (has_16_bits && spec.train.gradient_accumulation_steps == 1 &&
         narrows(o.gradients, spec::GradientType::compute, "optimizations.gradients: compute")))
      return fmt::format("{}", fmt::join(keys, " and "));
    return "";
  }

  // With every key as lean as it gets, where not even one sequence fits otherwise.
  std::vector<std::string> everything() const {
    const spec::Spec spec = can_chunk() ? chunked() : spec_;
    spec::Spec one_sequence = spec;
    one_sequence.train.micro_batch_size = 1;
    CompileOptions no_memory = options_;
    no_memory.memory_bytes = 1;
    const RecomputeChoice leanest = compile_to_fit(one_sequence, no_memory).recompute;
    const int64_t most = largest_batch(spec, leanest);
    if (most == 0) return {};
    std::vector<std::string> keys = {fmt::format("train.micro_batch_size: {}", most)};
    if (leanest != choice_) keys.push_back(recompute_key(leanest));
    if (can_chunk()) keys.push_back(kFusedLinear);
    return {fmt::format("{}", fmt::join(keys, " and "))};
  }

  static constexpr const char* kFusedLinear = "optimizations.loss: fused_linear";
  static std::string recompute_key(const RecomputeChoice& choice) {
    return "optimizations.recompute: " + to_string(choice);
  }

  const spec::Spec spec_;
  const RecomputeChoice choice_;
  CompileOptions options_;
  const MemoryLimit limit_;
};

}  // namespace

std::optional<diag::Diagnostic> memory_problem(const Compiled& compiled, const CompileOptions& options) {
  const MemoryLimit limit = memory_limit(compiled.spec, options);
  const int64_t bytes = compiled.plan.device_bytes();
  if (limit.allows(bytes)) return std::nullopt;
  const std::string help = options.generation ? "generate fewer sequences at once (--batch), or shorter ones"
                                              : Remedies(compiled, options, limit).text();
  return diag::Diagnostic{diag::Kind::out_of_memory, compiled.spec.where("train.micro_batch_size"),
                          fmt::format("the program needs {}, and {}", human(bytes), limit.source), help};
}

}  // namespace hydrac::driver
