#include "tune/ablation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/error.h"
#include "tune/timed_steps.h"

namespace hydrac::tune {

namespace {

struct Plain {
  const char* name;
  const char* value;  // as JSON
};

// In the order in which a reader would add them.
constexpr Plain kPlain[] = {
    {"precision", "\"fp32\""},
    {"fp8_head", "false"},
    {"fp8_attention", "false"},
    {"attention", "\"generated\""},
    {"attention_tiles.forward", "\"auto\""},
    {"attention_tiles.dq", "\"auto\""},
    {"attention_tiles.dkv", "\"auto\""},
    {"fused_matmuls", "\"none\""},
    {"own_matmuls", "[]"},
    {"library_matmuls", "[]"},
    {"loss", "\"materialized\""},
    {"recompute", "\"none\""},
    {"residual", "\"fp32\""},
    {"weights", "\"fp32\""},
    {"gradients", "\"fp32\""},
    {"optimizer_state", "\"fp32\""},
    {"offload.optimizer_state", "false"},
    {"offload.activations", "false"},
    {"offload.weights", "0"},
    {"cuda_graph", "false"},
    {"streams", "1"},
    {"threads", "1"},
};

using Keys = std::map<std::string, std::string>;

std::string override_of(const Optimization& optimization, const std::string& value) {
  return optimization.key + "=" + value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

// The override behind a spec's name, for "recompute=block" as for "train.micro_batch_size=4".
std::string given_override(const std::string& part, const Keys& keys) {
  const size_t equals = part.find('=');
  const std::string name = part.substr(0, equals);
  for (const std::string& key : {"optimizations." + name, name})
    if (keys.contains(key)) return key + part.substr(equals);
  throw runtime::InputError(fmt::format("--combine: \"{}\" is no key, of optimizations or in full", name));
}

// The override that adds `part` of a combination to the plain program: an optimization of the spec, or a key
// with a value.
std::string addition(const std::string& part, const std::vector<Optimization>& optimizations,
                     const Keys& keys) {
  if (part.find('=') != std::string::npos) return given_override(part, keys);
  const auto found = std::ranges::find(optimizations, part, &Optimization::name);
  if (found != optimizations.end()) return override_of(*found, found->value);
  std::vector<std::string> known;
  for (const Optimization& o : optimizations) known.push_back(o.name);
  throw runtime::InputError(
      fmt::format("--combine: \"{}\" is no optimization of this spec, which has {}; write {}=VALUE for a "
                  "value of your own",
                  part, known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")), part));
}

}  // namespace

std::vector<Optimization> optimizations_of(const Keys& keys) {
  const bool cpu = keys.at("target") == "\"cpu\"";
  std::vector<Optimization> list;
  for (const Plain& plain : kPlain) {
    const std::string name = plain.name, key = "optimizations." + name, value = keys.at(key);
    const bool is_of_target =
        name == "threads" ? cpu : !cpu || name == "loss" || name == "recompute" || name == "optimizer_state";
    if (is_of_target && value != plain.value) list.push_back({name, key, plain.value, value});
  }
  return list;
}

std::vector<Variant> variants_of(const std::vector<Optimization>& optimizations, const Keys& keys,
                                 const std::vector<std::string>& combinations) {
  using Kind = Variant::Kind;
  std::vector<std::string> plain;
  for (const Optimization& o : optimizations) plain.push_back(override_of(o, o.plain));
  const auto added = [&](const std::string& parts) {
    std::vector<std::string> overrides = plain;
    for (const std::string& part : split(parts, '+'))
      overrides.push_back(addition(part, optimizations, keys));
    return overrides;
  };
  std::vector<Variant> variants = {{Kind::baseline, "plain fp32", plain}};
  for (const Optimization& o : optimizations)
    variants.push_back({Kind::with, fmt::format("plain + {} {}", o.name, o.value), added(o.name)});
  for (const std::string& combination : combinations)
    variants.push_back({Kind::with, "plain + " + combination, added(combination)});
  variants.push_back({Kind::as_is, "the spec (" + keys.at("name") + ")", {}});
  for (const Optimization& o : optimizations)
    variants.push_back(
        {Kind::without, fmt::format("without {} {}", o.name, o.value), {override_of(o, o.plain)}});
  for (Variant& variant : variants) std::erase(variant.name, '"');
  return variants;
}

Speedup speedup_of(const std::vector<double>& step_ms, const std::vector<double>& reference_ms) {
  std::vector<double> ratios;
  for (size_t round = 0; round < step_ms.size(); ++round)
    ratios.push_back(reference_ms[round] / step_ms[round]);
  const auto [least, most] = std::ranges::minmax(ratios);
  const auto [own_least, own_most] = std::ranges::minmax(step_ms);
  const auto [its_least, its_most] = std::ranges::minmax(reference_ms);
  return {median(ratios), least, most, own_least <= its_most && its_least <= own_most};
}

}  // namespace hydrac::tune
