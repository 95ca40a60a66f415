#include "driver/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "driver/memory_limit.h"
#include "driver/memory_problem.h"
#include "driver/prediction.h"
#include "spec/batch.h"
#include "spec/fit_keys.h"
#include "spec/print.h"
#include "targets/target.h"

namespace hydrac::driver {

namespace {

using passes::RecomputeChoice;

// Choices that differ in what they compute again, `none` first. The mlp includes its activation, attention
// the norm of queries and keys.
std::vector<RecomputeChoice> all_recompute_choices(const spec::Spec& spec) {
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

// The number of layers that compute something again may be open, or be what the spec says.
void count_layers(FitSpace& space, const spec::Spec& spec, bool is_open) {
  const auto all = static_cast<int>(spec.model.num_hidden_layers),
             said = static_cast<int>(spec.optimizations.recompute_layers);
  space.most_layers = said == 0 ? all : said;
  space.fewest_layers = is_open ? 1 : space.most_layers;
}

// Sizes that leave the caches of a cpu, or that a GPU's kernels cannot count, are not tried.
std::vector<int64_t> sizes_to_try(const spec::Spec& spec) {
  constexpr int64_t kCached = 4096, kCounted = INT32_MAX;
  const int64_t most = (targets::find(spec.target)->is_cpu() ? kCached : kCounted) / spec.train.sequence_len;
  std::vector<int64_t> sizes = micro_batch_sizes(spec);
  while (sizes.size() > 1 && sizes.back() > most) sizes.pop_back();
  return sizes;
}

// The choice in the form of the spec's key.
spec::Recompute recompute_value(const RecomputeChoice& choice) {
  using Mode = spec::Recompute::Mode;
  if (choice.block) return {.mode = Mode::block};
  return {.mode = choice.any() ? Mode::list : Mode::none,
          .norm = choice.norm,
          .act = choice.act,
          .attn = choice.attn,
          .mlp = choice.mlp,
          .qk_norm = choice.qk_norm};
}

// "recompute: [act], loss: fused_linear"
std::string keys_text(const spec::OpenKeys& open, const FitChoice& choice) {
  std::vector<std::string> keys;
  if (open.micro_batch_size) keys.push_back(fmt::format("micro_batch_size: {}", choice.micro_batch_size));
  const int layers = choice.recompute.layers;
  if (open.recompute) keys.push_back("recompute: " + to_string(choice.recompute));
  if (layers > 0 || (open.recompute_layers && !open.recompute))
    keys.push_back(fmt::format("recompute_layers: {}", layers));
  if (open.loss) keys.push_back(fmt::format("loss: {}", to_string(choice.loss)));
  if (open.offload)
    keys.push_back(fmt::format("offload.optimizer_state: {}", to_string(choice.moments.on_host)));
  if (open.optimizer_state)
    keys.push_back(fmt::format("optimizer_state: {}", to_string(choice.moments.type)));
  return fmt::format("{}", fmt::join(keys, ", "));
}

// Milliseconds only where the target's rates are known; elsewhere ratios.
std::string time_text(const spec::Spec& spec, double seconds, double fastest) {
  const bool known = rates_of(*targets::find(spec.target), spec.optimizations.precision).are_known;
  const double more = 100 * (seconds / fastest - 1);
  return fmt::format("{}{}", known ? fmt::format("{:.1f} ms a step predicted, ", 1e3 * seconds) : "",
                     more < 0.05 ? "no more than with unlimited memory"
                                 : fmt::format("{:.1f}% more than with unlimited memory", more));
}

std::string plan_text(const spec::Spec& spec, const spec::OpenKeys& open, const FitPlan& plan,
                      double fastest) {
  return fmt::format(
      "{}: {}{}, {}", keys_text(open, plan.choice), bytes_text(plan.bytes),
      plan.host_bytes > 0 ? fmt::format(" and {} of the host's", bytes_text(plan.host_bytes)) : "",
      time_text(spec, plan.seconds, fastest));
}

passes::Log fit_decisions(const spec::Spec& spec, const spec::OpenKeys& open, const FitSpace& space,
                          const FitFound& found, const MemoryLimit& limit) {
  const char* pass = "fit";
  passes::Log log = {{pass, fmt::format("to fit {} bytes: {}", limit.bytes, limit.source)}};
  log.push_back({pass, "taken: " + plan_text(spec, open, *found.best, found.fastest_seconds)});
  if (found.runner_up)
    log.push_back({pass, "runner-up: " + plan_text(spec, open, *found.runner_up, found.fastest_seconds)});
  log.push_back(
      {pass, fmt::format("{} of {} combinations planned{}", found.planned.size(), space.combinations(),
                         found.planned.size() == 1 ? ": the defaults fit" : "")});
  return log;
}

// In GiB, rounded up, for a person to type.
std::string limit_text(int64_t bytes) {
  const double steps = bytes < int64_t{1} << 30 ? 10000 : 100;
  return fmt::format("{}", std::ceil(static_cast<double>(bytes) / 0x1p30 * steps) / steps);
}

diag::Diagnostic nothing_fits(const spec::Spec& leanest_spec, const spec::OpenKeys& open,
                              const FitSpace& space, const FitPlan& leanest, const MemoryLimit& limit,
                              const CompileOptions& options) {
  const Compiled compiled = compile(leanest_spec, leanest.choice.recompute, options);
  return {diag::Kind::out_of_memory, leanest_spec.where("optimizations.fit"),
          fmt::format("none of the {} combinations of keys fits: the least needs {}, and {}",
                      space.combinations(), bytes_text(leanest.bytes), limit.source),
          fmt::format("the least is {}, which a limit of {} GiB would allow; {}",
                      open.any() ? keys_text(open, leanest.choice) : "the spec as it is",
                      limit_text(leanest.bytes), memory_remedies(compiled, options, limit))};
}

}  // namespace

FitSpace fit_space(const spec::Spec& spec) {
  const spec::OpenKeys open = open_keys(spec);
  const auto& o = spec.optimizations;
  FitSpace space{.micro_batch_sizes = {spec.train.micro_batch_size},
                 .recompute = {recompute_choice(spec)},
                 .losses = {o.loss}};
  if (open.micro_batch_size) space.micro_batch_sizes = sizes_to_try(spec);
  if (open.recompute) space.recompute = all_recompute_choices(spec);
  count_layers(space, spec, open.recompute_layers);
  if (open.loss) {
    using spec::LossKernel;
    space.losses = {LossKernel::materialized, LossKernel::chunked, LossKernel::fused_linear};
  }
  space.keeps_moments = open.offload;
  for (const auto type : {o.optimizer_state, spec::StateType::int8}) {
    if (type != o.optimizer_state && !open.optimizer_state) continue;
    space.moments.push_back({o.offload.optimizer_state, type});
    if (open.offload) space.moments.push_back({1, type});
    if (o.optimizer_state == spec::StateType::int8) break;
  }
  return space;
}

ChosenKeys choose_open_keys(spec::Spec& spec, const CompileOptions& options, const FitProgress& progress) {
  const bool fits_all = waits_for_fit(spec);
  const MemoryLimit limit = known_memory_limit(
      spec, options, fits_all ? "optimizations.fit: auto" : "train.micro_batch_size: auto");
  const spec::OpenKeys open = open_keys(spec);
  const FitSpace space = fit_space(spec);
  const FitFound found = search_fit(spec, options, space, limit.bytes, progress);
  const FitChoice& choice = found.best ? found.best->choice : found.leanest.choice;
  spec::Spec chosen = with_choice(spec, choice);
  if (open.recompute) chosen.optimizations.recompute = recompute_value(choice.recompute);
  if (open.recompute_layers) chosen.optimizations.recompute_layers = choice.recompute.layers;
  ChosenKeys result;
  if (fits_all && found.best) result.decisions = fit_decisions(spec, open, space, found, limit);
  if (fits_all && !found.best)
    result.problem = nothing_fits(chosen, open, space, found.leanest, limit, options);
  take_chosen_keys(spec, chosen);
  return result;
}

Compiled compile_to_fit(const spec::Spec& spec, const CompileOptions& options) {
  const char* pass = "recompute: auto";
  const MemoryLimit limit = known_memory_limit(spec, options, "optimizations.recompute: auto");
  FitSpace space = fit_space(spec);
  space.recompute = all_recompute_choices(spec);
  count_layers(space, spec, spec.optimizations.recompute_layers == 0);
  FitFound found = search_fit(spec, options, space, limit.bytes);
  const RecomputeChoice chosen = (found.best ? *found.best : found.leanest).choice.recompute;

  passes::Log log = {{pass, fmt::format("to fit {} bytes: {}", limit.bytes, limit.source)}};
  std::ranges::stable_sort(found.planned, {}, &FitPlan::seconds);
  const double least = found.planned.front().seconds;
  for (const FitPlan& plan : found.planned) {
    const bool fits = limit.allows(plan.bytes), taken = plan.choice.recompute == chosen;
    log.push_back(
        {pass, fmt::format("{}: {} bytes, {:.1f}% more time a step, {}{}", in_words(plan.choice.recompute),
                           plan.bytes, 100 * (plan.seconds / least - 1), fits ? "fits" : "does not fit",
                           taken ? ": taken" : "")});
    if (fits && taken) break;
  }
  Compiled compiled = compile(spec, chosen, options);
  compiled.decisions.insert(compiled.decisions.begin(), log.begin(), log.end());
  return compiled;
}

}  // namespace hydrac::driver
