#include "tune/candidate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "driver/compile.h"
#include "spec/batch.h"
#include "targets/target.h"

namespace hydrac::tune {

namespace {

// "optimizations.loss" -> "loss"
std::string without_section(const std::string& path) {
  return path.substr(path.find('.') + 1);
}

class Knobs {
 public:
  Knobs(const spec::Spec& spec, Effort effort) : spec_(spec), effort_(effort) {}

  // Values other than `now`, where the spec does not write the key or writes that it is open.
  void add(const std::string& key, const std::string& now, std::vector<std::string> values,
           bool says_auto = false) {
    std::erase(values, now);
    const bool is_open = key == kBlas || says_auto || !spec_.is_set(key);
    if (is_open && !values.empty()) knobs_.push_back({key, std::move(values)});
  }

  // 0 stands for all cores.
  void threads(int cores) {
    std::vector<std::string> values;
    for (int threads = cores / 2; threads >= 1; threads = threads / 2)
      values.push_back(std::to_string(threads));
    add("optimizations.threads", "", values, spec_.optimizations.threads == 0);
  }

  // Divisors near the size that the plan chose: smaller ones leave more in the caches, larger ones fill the
  // machine.
  void micro_batch(bool is_open) {
    const std::vector<int64_t> sizes = micro_batch_sizes(spec_);
    const int64_t now = spec_.train.micro_batch_size;
    const auto at = std::ranges::find(sizes, now) - sizes.begin();
    const int64_t reach = effort_ == Effort::quick ? 1 : effort_ == Effort::normal ? 3 : 100;
    std::vector<std::string> values;
    for (int64_t away = 1; away <= reach; ++away) {
      for (const int64_t i : {at - away, at + away})
        if (i >= 0 && i < static_cast<int64_t>(sizes.size()))
          values.push_back(std::to_string(sizes[static_cast<size_t>(i)]));
    }
    if (is_open) add("train.micro_batch_size", std::to_string(now), std::move(values), true);
  }

  void recompute() {
    const bool is_auto = spec_.optimizations.recompute.mode == spec::Recompute::Mode::automatic;
    std::vector<std::string> values = {"none", "[act]", "[norm]", "[norm, act]"};
    if (spec_.model.qk_norm) {
      values.push_back("[qk_norm]");
      values.push_back("[norm, act, qk_norm]");
    }
    if (effort_ != Effort::quick) values.insert(values.end(), {"[mlp]", "[attn]"});
    if (effort_ == Effort::max)
      values.insert(values.end(), {"[norm, mlp]", "[norm, attn]", "[attn, mlp]", "block"});
    add("optimizations.recompute", is_auto ? "" : to_string(driver::recompute_choice(spec_)), values,
        is_auto);
  }

  void loss() {
    if (spec_.model.head == spec::Head::regression) return;
    add("optimizations.loss", std::string(to_string(spec_.optimizations.loss)),
        {"materialized", "fused_linear", "chunked"});
  }

  void gpu() {
    const auto& o = spec_.optimizations;
    add("optimizations.attention", std::string(to_string(o.attention)), {"generated", "cudnn"},
        o.attention == spec::AttentionKernel::auto_);
    if (targets::find(spec_.target)->capability == 90)
      add("optimizations.fused_matmuls", std::string(to_string(o.fused_matmuls)), {"all", "none"},
          o.fused_matmuls == spec::FusedMatmuls::auto_);
    add("optimizations.streams", std::to_string(o.streams), {"1", "2"});
    // Where optimizations.fit chose it: other keys may make it needless.
    if (o.offload.optimizer_state) add("optimizations.offload.optimizer_state", "true", {"false"});
  }

  std::vector<Knob> take() { return std::move(knobs_); }

 private:
  const spec::Spec& spec_;
  const Effort effort_;
  std::vector<Knob> knobs_;
};

}  // namespace

std::string key_of(const Algorithm& algorithm) {
  return fmt::format("{}{} {}", kAlgorithm, algorithm.section, algorithm.key);
}

std::optional<Algorithm> algorithm_of(const std::string& key) {
  if (!key.starts_with(kAlgorithm)) return std::nullopt;
  const size_t space = key.find(' ', kAlgorithm.size());
  return Algorithm{key.substr(kAlgorithm.size(), space - kAlgorithm.size()), key.substr(space + 1)};
}

Candidate Candidate::with(const std::string& key, const std::string& value) const {
  Candidate other = *this;
  other.values[key] = value;
  return other;
}

std::vector<LockedKey> Candidate::keys() const {
  std::vector<LockedKey> keys;
  for (const auto& [key, value] : values) {
    if (key != kBlas && !algorithm_of(key)) keys.push_back(locked_key(key, value));
  }
  return keys;
}

runtime::RecordedChoices Candidate::choices() const {
  runtime::RecordedChoices choices;
  if (const auto blas = values.find(kBlas); blas != values.end())
    choices.set("blas", "library", blas->second);
  return choices;
}

std::string Candidate::text() const {
  if (values.empty()) return "the defaults";
  std::vector<std::string> parts;
  int algorithms = 0;
  for (const auto& [key, value] : values) {
    if (algorithm_of(key))
      ++algorithms;
    else
      parts.push_back(fmt::format("{} {}", without_section(key), value));
  }
  if (algorithms > 0)
    parts.push_back(algorithms == 1 ? "another algorithm of a matmul"
                                    : fmt::format("other algorithms of {} matmuls", algorithms));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<Knob> knobs_of(const spec::Spec& spec, bool open_batch, const Equipment& equipment,
                           Effort effort) {
  Knobs knobs(spec, effort);
  const bool cpu = targets::find(spec.target)->is_cpu();
  if (cpu) {
    if (equipment.blas.size() > 1) knobs.add(kBlas, "", equipment.blas);
    knobs.threads(equipment.cores);
  } else {
    knobs.gpu();
  }
  knobs.micro_batch(open_batch);
  knobs.loss();
  knobs.recompute();
  return knobs.take();
}

std::vector<Candidate> numerics_of(const spec::Spec& spec) {
  const targets::Target& target = *targets::find(spec.target);
  if (target.is_cpu() || !spec.tune.numerics) return {};
  std::vector<Candidate> list;
  const auto add = [&](const char* key, const char* value, bool is_possible) {
    if (is_possible && !spec.is_set(key)) list.push_back(Candidate{}.with(key, value));
  };
  const auto& o = spec.optimizations;
  const bool half = !computes_in_32_bits(o.precision);
  add("optimizations.precision", "tf32", o.precision == spec::Precision::fp32 && target.has_tf32());
  add("optimizations.precision", "bf16", !half && target.has_bf16());
  add("optimizations.precision", "fp8", o.precision == spec::Precision::bf16 && target.has_fp8());
  add("optimizations.fp8_head", "true", o.precision == spec::Precision::fp8);
  add("optimizations.residual", "compute", half);
  add("optimizations.optimizer_state", "bf16", true);
  add("optimizations.optimizer_state", "int8", true);
  add("optimizations.weights", "bf16",
      o.precision == spec::Precision::bf16 || o.precision == spec::Precision::fp8);
  add("optimizations.gradients", "compute", half && spec.train.gradient_accumulation_steps == 1);
  return list;
}

}  // namespace hydrac::tune
