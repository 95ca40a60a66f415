#include "tune/candidate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "driver/compile.h"
#include "spec/batch.h"
#include "spec/checks/attention_tiles.h"
#include "spec/checks/fp8_attention.h"
#include "spec/print.h"
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

  // Micro-batch sizes near the plan's choice: smaller ones keep more in the caches, larger ones fill the
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

  // In how many layers; 0 is all. Without effect, and not measured, where nothing is computed again.
  void recompute_layers() {
    const int64_t all = spec_.model.num_hidden_layers;
    const std::vector<int64_t> quarters =
        effort_ == Effort::quick ? std::vector<int64_t>{2} : std::vector<int64_t>{1, 2, 3};
    std::vector<std::string> values;
    for (const int64_t quarter : quarters) {
      const std::string value = std::to_string(quarter * all / 4);
      if (quarter * all >= 4 && std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
    values.push_back("0");
    add("optimizations.recompute_layers", std::to_string(spec_.optimizations.recompute_layers), values);
  }

  void loss() {
    if (!spec::can_divide_head(spec_)) return;
    add("optimizations.loss", std::string(to_string(spec_.optimizations.loss)),
        {"materialized", "fused_linear", "chunked"});
  }

  void gpu() {
    const auto& o = spec_.optimizations;
    add("optimizations.streams", std::to_string(o.streams), {"1", "2"});
    add("optimizations.attention", std::string(to_string(o.attention)), {"generated", "cudnn"},
        o.attention == spec::AttentionKernel::auto_);
    if (targets::find(spec_.target)->capability == 90)
      add("optimizations.fused_matmuls", std::string(to_string(o.fused_matmuls)), {"all", "none"},
          o.fused_matmuls == spec::FusedMatmuls::auto_);
    // optimizations.fit may have chosen it: other keys may make it needless.
    if (const spec::Share& share = o.offload.optimizer_state; share.any())
      add("optimizations.offload.optimizer_state", to_string(share), {"false"});
  }

  // Matmuls that the other side could compute too: weight gradients together first, then our own ones one by
  // one. Comes after the knob for all matmuls at once.
  void matmuls(const passes::MatmulChoices& choices) {
    const auto& o = spec_.optimizations;
    if (!o.own_matmuls.empty() || !o.library_matmuls.empty() || o.fused_matmuls != spec::FusedMatmuls::auto_)
      return;
    passes::MatmulChoices open;
    for (const passes::MatmulChoice& choice : choices) {
      if (choice.function == "micro_step" && choice.can_be_ours &&
          std::ranges::find(open, choice.name, &passes::MatmulChoice::name) == open.end())
        open.push_back(choice);
    }
    for (const passes::MatmulChoice& choice : open) {
      if (choice.together.empty() || choice.together == choice.name)
        try_other(together(open, choice), choice);
    }
    for (const passes::MatmulChoice& choice : open) {
      if (!choice.together.empty() && choice.is_ours && effort_ != Effort::quick)
        try_other(choice.name, choice);
    }
  }

  // Tiles of kernels that the program has. If one kernel computes all gradients, the pair is left out: it was
  // measured to be slower.
  void tiles() {
    using cuda::AttentionKernel;
    constexpr std::pair<const char*, AttentionKernel> kKernels[] = {{"forward", AttentionKernel::forward},
                                                                    {"dq", AttentionKernel::query_gradients},
                                                                    {"dkv", AttentionKernel::key_gradients}};
    if (spec_.optimizations.attention == spec::AttentionKernel::cudnn) return;
    for (const auto& [name, kernel] : kKernels) {
      if (effort_ == Effort::max || has_kernel(spec_, kernel))
        add(fmt::format("optimizations.attention_tiles.{}", name), "auto", possible_tiles(spec_, kernel));
    }
  }

  std::vector<Knob> take() { return std::move(knobs_); }

 private:
  static std::string together(const passes::MatmulChoices& all, const passes::MatmulChoice& first) {
    std::vector<std::string> names;
    for (const passes::MatmulChoice& choice : all) {
      if (choice.name == first.name || (!first.together.empty() && choice.together == first.together))
        names.push_back(choice.name);
    }
    return fmt::format("{}", fmt::join(names, " "));
  }

  void try_other(const std::string& names, const passes::MatmulChoice& now) {
    knobs_.push_back({std::string(kMatmul) + names, {now.is_ours ? kLibrarys : kOurs}});
  }

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

namespace {

// The matmuls of a key that is kMatmul.
std::vector<std::string> matmuls_of(const std::string& key) {
  std::vector<std::string> names;
  for (size_t at = kMatmul.size(); at <= key.size();) {
    const size_t end = std::min(key.find(' ', at), key.size());
    names.push_back(key.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

}  // namespace

std::vector<LockedKey> Candidate::keys() const {
  std::vector<LockedKey> keys;
  std::map<std::string, std::set<std::string>> matmuls;
  for (const auto& [key, value] : values) {
    if (key.starts_with(kMatmul)) {
      std::set<std::string>& list =
          matmuls[value == kOurs ? "optimizations.own_matmuls" : "optimizations.library_matmuls"];
      for (const std::string& name : matmuls_of(key)) list.insert(spec::yaml_text(name));
    } else if (key != kBlas && !algorithm_of(key)) {
      keys.push_back(locked_key(key, value));
    }
  }
  for (const auto& [key, names] : matmuls)
    keys.push_back(locked_key(key, fmt::format("[{}]", fmt::join(names, ", "))));
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
    if (algorithm_of(key)) {
      ++algorithms;
      continue;
    }
    if (key.starts_with(kMatmul))
      parts.push_back(fmt::format("{} {}", fmt::join(matmuls_of(key), " and "), value));
    else
      parts.push_back(fmt::format("{} {}", without_section(key), value));
  }
  if (algorithms > 0)
    parts.push_back(algorithms == 1 ? "another algorithm of a matmul"
                                    : fmt::format("other algorithms of {} matmuls", algorithms));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<Knob> knobs_of(const spec::Spec& spec, bool open_batch, const Equipment& equipment, Effort effort,
                           const Parts& parts) {
  Knobs knobs(spec, effort);
  const bool cpu = targets::find(spec.target)->is_cpu();
  if (cpu) {
    if (equipment.blas.size() > 1) knobs.add(kBlas, "", equipment.blas);
    knobs.threads(equipment.cores);
  } else {
    knobs.gpu();
    if (parts.attention_share > kShareForTiles) knobs.tiles();
    knobs.matmuls(parts.matmuls);
  }
  knobs.micro_batch(open_batch);
  knobs.loss();
  knobs.recompute();
  knobs.recompute_layers();
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
  add("optimizations.fp8_attention", "true", spec::fp8_attention_obstacles(spec).empty());
  add("optimizations.residual", "compute", half);
  add("optimizations.optimizer_state", "bf16", true);
  add("optimizations.optimizer_state", "int8", true);
  add("optimizations.weights", "bf16",
      o.precision == spec::Precision::bf16 || o.precision == spec::Precision::fp8);
  add("optimizations.gradients", "compute", half && spec::micro_batches_of_step(spec) == 1);
  return list;
}

}  // namespace hydrac::tune
