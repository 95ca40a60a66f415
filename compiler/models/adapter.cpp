#include "models/adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "diag/render.h"
#include "diag/suggest.h"
#include "models/parameters.h"

namespace hydrac::models {

namespace {

constexpr std::string_view kAllLinear = "all-linear";

bool names(const std::string& target, const std::string& module) {
  return target == kAllLinear || module == target || module.ends_with("." + target);
}

// Every linear layer of a block.
std::set<std::string> modules_of_blocks(spec::Spec spec) {
  spec.adapter.target_modules = {std::string(kAllLinear)};
  ir::Graph graph;
  std::set<std::string> modules;
  for (const auto& [weight, adapter] : declare_parameters(graph, spec).adapters) {
    for (const ir::CheckpointPart& part : graph.value(weight).parameter->checkpoint)
      modules.insert(module_of(part));
  }
  return modules;
}

std::vector<std::string> last_words(const std::set<std::string>& modules) {
  std::set<std::string> words;
  for (const std::string& module : modules) words.insert(module.substr(module.rfind('.') + 1));
  return {words.begin(), words.end()};
}

}  // namespace

bool adapts(const spec::SpecKeys& spec, const std::string& module) {
  return has_adapters(spec) &&
         std::ranges::any_of(spec.adapter.target_modules,
                             [&](const std::string& target) { return names(target, module); });
}

double adapter_scale(const spec::SpecKeys& spec) {
  const auto r = static_cast<double>(spec.adapter.r);
  return spec.adapter.alpha / (spec.adapter.rslora ? std::sqrt(r) : r);
}

std::vector<std::string> target_modules(const spec::Spec& spec) {
  const std::vector<std::string>& targets = spec.adapter.target_modules;
  return std::ranges::find(targets, kAllLinear) == targets.end() ? targets
                                                                 : last_words(modules_of_blocks(spec));
}

void check_adapter(const spec::Spec& spec, diag::Diagnostics& diagnostics) {
  if (!has_adapters(spec)) return;
  const std::set<std::string> modules = modules_of_blocks(spec);
  for (const std::string& target : spec.adapter.target_modules) {
    if (std::ranges::any_of(modules, [&](const std::string& module) { return names(target, module); }))
      continue;
    const std::string meant = diag::nearest(target, last_words(modules));
    diagnostics.report(diag::Kind::adapter_matches_nothing, spec.where("adapter.target_modules"),
                       fmt::format("no linear layer of a block is named {}", diag::printable(target)),
                       meant.empty() ? fmt::format("they are {}; {} is all of them",
                                                   fmt::join(last_words(modules), ", "), kAllLinear)
                                     : fmt::format("did you mean {}?", meant));
  }
}

}  // namespace hydrac::models
