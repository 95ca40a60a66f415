#include "driver/memory_problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "driver/fit.h"
#include "spec/fit_keys.h"
#include "targets/target.h"

namespace hydrac::driver {

namespace {

using passes::RecomputeChoice;

// Looks for values of keys with which the program fits, by planning it.
class Remedies {
 public:
  Remedies(const Compiled& compiled, const CompileOptions& options, const MemoryLimit& limit)
      : spec_(compiled.spec),
        choice_(compiled.recompute),
        options_(options),
        limit_(limit),
        takes_long_(planned_calls(compiled) > kQuicklyPlannedCalls) {
    options_.dump_dir.clear();
  }

  std::string text() const {
    std::vector<std::string> ways;
    if (const int64_t most = largest_batch(spec_, choice_); most > 0)
      ways.push_back(fmt::format("train.micro_batch_size: {}", most));
    const int64_t most_shared = spec::can_share_weights(spec_) ? 3 : 2;
    for (int64_t level = spec_.parallel.zero + 1; can_share_update() && level <= most_shared; ++level) {
      if (!fits(sharing(level), choice_)) continue;
      ways.push_back(fmt::format("parallel.zero: {}", level));
      break;
    }
    const std::optional<RecomputeChoice> choice = other_choice(spec_);
    if (choice) ways.push_back(recompute_key(*choice));
    const bool chunks = can_chunk() && fits(chunked(), choice_);
    if (chunks) ways.push_back(kFusedLinear);
    if (!choice && !chunks && can_chunk()) {
      if (const auto both = other_choice(chunked()))
        ways.push_back(fmt::format("{} and {}", recompute_key(*both), kFusedLinear));
    }
    if (can_offload() && fits(offloaded(spec_), choice_)) ways.push_back(kOffload);
    if (open_keys_suffice()) ways.push_back(chosen_by_fit());
    if (const std::string state = narrow_state(); !state.empty()) ways.push_back(state);
    if (ways.empty()) ways = everything();
    return ways.empty() ? "no micro-batch fits: a smaller model, or a shorter train.sequence_len, may"
                        : fmt::format("it fits with {}", fmt::join(ways, ", or with "));
  }

 private:
  // Planning takes as long as there are calls in all layers: a second from some 100,000 of them on.
  static constexpr int64_t kQuicklyPlannedCalls = 20'000;
  static int64_t planned_calls(const Compiled& compiled) {
    int64_t calls = 0;
    for (const program::Function& function : compiled.program.functions)
      for (const program::Section& section : function.sections)
        calls += std::max(section.layers, 1) * std::ssize(section.calls);
    return calls;
  }

  // Tries smaller micro-batches first if this one is huge: a head in parts then has so many parts that
  // planning takes seconds. Memory only grows with the micro-batch, so a small one that does not fit decides.
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
    spec::Spec any_layers = spec;
    any_layers.optimizations.recompute_layers = 0;
    if (takes_long_) return fits(any_layers, kLeanest) ? std::optional(kLeanest) : std::nullopt;
    const bool fit = fits_from_small(any_layers, [&](const spec::Spec& smaller) {
      const Compiled c = compile_to_fit(smaller, options_);
      choice = c.recompute;
      return limit_.allows(c.plan.device_bytes());
    });
    return fit ? choice : std::nullopt;
  }

  bool can_share_update() const { return spec_.parallel.data > 1 && spec_.parallel.tensor == 1; }
  spec::Spec sharing(int64_t level) const {
    spec::Spec spec = spec_;
    spec.parallel.zero = level;
    return spec;
  }

  bool can_chunk() const {
    return spec_.optimizations.loss == spec::LossKernel::materialized && spec::can_divide_head(spec_);
  }
  spec::Spec chunked() const {
    spec::Spec spec = spec_;
    spec.optimizations.loss = spec::LossKernel::fused_linear;
    return spec;
  }

  bool can_offload() const {
    return !targets::find(spec_.target)->is_cpu() && !spec_.optimizations.offload.optimizer_state.any();
  }
  static spec::Spec offloaded(spec::Spec spec) {
    spec.optimizations.offload.optimizer_state = 1;
    return spec;
  }

  // True if it fits with the leanest values of all keys that optimizations.fit may choose.
  bool open_keys_suffice() const {
    spec::Spec spec = spec_;
    spec.optimizations.fit = spec::Fit::auto_;
    const spec::OpenKeys open = open_keys(spec);
    spec.optimizations.fit = spec::Fit::none;
    if (open.loss) spec.optimizations.loss = spec::LossKernel::fused_linear;
    if (open.offload) spec.optimizations.offload.optimizer_state = 1;
    return open.any() &&
           (fits(spec, choice_) || (open.recompute && open.recompute_layers && other_choice(spec)));
  }

  // The free memory of a GPU may be less than fit: auto, which goes by the target, took for granted.
  std::string chosen_by_fit() const {
    if (!spec_.is_set("optimizations.fit")) return "optimizations.fit: auto";
    return fmt::format("--memory {:.2f}, from which optimizations.fit chooses anew",
                       static_cast<double>(limit_.bytes) / 0x1p30);
  }

  // 8-bit moments, then 16-bit weights and gradients, as few of them as it takes; last, because they change
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
        (has_16_bits && spec::micro_batches_of_step(spec) == 1 &&
         narrows(o.gradients, spec::GradientType::compute, "optimizations.gradients: compute")))
      return fmt::format("{}", fmt::join(keys, " and "));
    return "";
  }

  // Every key at its leanest value, if not even one sequence fits otherwise.
  std::vector<std::string> everything() const {
    const spec::Spec spec = can_chunk() ? chunked() : spec_;
    spec::Spec one_sequence = spec;
    one_sequence.train.micro_batch_size = 1;
    one_sequence.optimizations.recompute_layers = 0;
    CompileOptions no_memory = options_;
    no_memory.memory_bytes = 1;
    const RecomputeChoice leanest =
        takes_long_ ? kLeanest : compile_to_fit(one_sequence, no_memory).recompute;
    int64_t most = largest_batch(spec, leanest);
    const bool offload = most == 0 && can_offload();
    if (offload) most = largest_batch(offloaded(spec), leanest);
    if (most == 0) return {};
    std::vector<std::string> keys = {fmt::format("train.micro_batch_size: {}", most)};
    if (leanest != choice_) keys.push_back(recompute_key(leanest));
    if (can_chunk()) keys.push_back(kFusedLinear);
    if (offload) keys.push_back(kOffload);
    return {fmt::format("{}", fmt::join(keys, " and "))};
  }

  static constexpr RecomputeChoice kLeanest{.block = true};  // as a rule; a search finds where it is not
  static constexpr const char* kFusedLinear = "optimizations.loss: fused_linear";
  static constexpr const char* kOffload = "optimizations.offload.optimizer_state: true";
  std::string recompute_key(const RecomputeChoice& choice) const {
    const std::string key = "optimizations.recompute: " + to_string(choice);
    if (choice.layers == spec_.optimizations.recompute_layers) return key;
    return fmt::format("{} and optimizations.recompute_layers: {}", key, choice.layers);
  }

  const spec::Spec spec_;
  const RecomputeChoice choice_;
  CompileOptions options_;
  const MemoryLimit limit_;
  const bool takes_long_;
};

}  // namespace

std::string memory_remedies(const Compiled& compiled, const CompileOptions& options,
                            const MemoryLimit& limit) {
  return Remedies(compiled, options, limit).text();
}

std::optional<diag::Diagnostic> memory_problem(const Compiled& compiled, const CompileOptions& options) {
  const MemoryLimit limit = memory_limit(compiled.spec, options);
  const int64_t bytes = compiled.plan.device_bytes();
  if (limit.allows(bytes)) return std::nullopt;
  return diag::Diagnostic{diag::Kind::out_of_memory, compiled.spec.where("train.micro_batch_size"),
                          fmt::format("the program needs {}, and {}", bytes_text(bytes), limit.source),
                          options.generation
                              ? "generate fewer sequences at once (--batch), shorter ones, or with fewer "
                                "GiB of keys and values (sample.cache_memory)"
                              : memory_remedies(compiled, options, limit)};
}

}  // namespace hydrac::driver
