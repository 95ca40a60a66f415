#include "models/adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "diag/render.h"
#include "diag/suggest.h"
#include "hydrac/nf4.h"
#include "models/nf4.h"
#include "models/parameters.h"

namespace hydrac::models {

namespace {

constexpr std::string_view kAllLinear = "all-linear";

bool names(const std::string& target, const std::string& module) {
  return target == kAllLinear || module == target || module.ends_with("." + target);
}

bool one_names(const std::vector<std::string>& targets, const std::string& module) {
  return std::ranges::any_of(targets, [&](const std::string& target) { return names(target, module); });
}

// "model.layers.{}.mlp.up_proj" in layer 3: "model.layers.3.mlp.up_proj".
std::string in_layer(std::string module, int64_t layer) {
  return module.replace(module.find("{}"), 2, std::to_string(layer));
}

// Whether the target is the module in some layer, as PEFT may write the modules that it adapts.
bool names_in_a_layer(const spec::SpecKeys& spec, const std::string& target, const std::string& module) {
  for (int64_t layer = 0; layer < spec.model.num_hidden_layers; ++layer) {
    if (names(target, in_layer(module, layer))) return true;
  }
  return false;
}

bool named_in_every_layer(const spec::SpecKeys& spec, const std::string& module) {
  for (int64_t layer = 0; layer < spec.model.num_hidden_layers; ++layer) {
    if (!one_names(spec.adapter.target_modules, in_layer(module, layer))) return false;
  }
  return true;
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
         (one_names(spec.adapter.target_modules, module) || named_in_every_layer(spec, module));
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

namespace {

void check_base(const spec::Spec& spec, diag::Diagnostics& diagnostics) {
  if (!has_nf4_base(spec)) return;
  ir::Graph graph;
  declare_parameters(graph, spec);
  for (const ir::Value& value : graph.values) {
    if (!is_nf4_matrix(value) || value.shape[1].size % kNf4Block == 0) continue;
    const std::string module = module_of(value.parameter->checkpoint[0]);
    diagnostics.report(diag::Kind::base_unsupported, spec.where("adapter.base"),
                       fmt::format("nf4 keeps rows in blocks of {}, and {} reads {} features", kNf4Block,
                                   module.substr(module.find("{}.") + 3), value.shape[1].size),
                       fmt::format("make that width a multiple of {}, or remove adapter.base", kNf4Block));
    return;
  }
}

}  // namespace

void check_adapter(const spec::Spec& spec, diag::Diagnostics& diagnostics) {
  if (!has_adapters(spec)) return;
  check_base(spec, diagnostics);
  const std::set<std::string> modules = modules_of_blocks(spec);
  for (const std::string& target : spec.adapter.target_modules) {
    const auto found = std::ranges::find_if(modules, [&](const std::string& module) {
      return names(target, module) || names_in_a_layer(spec, target, module);
    });
    if (found != modules.end()) {
      if (adapts(spec, *found)) continue;
      diagnostics.report(diag::Kind::adapter_matches_nothing, spec.where("adapter.target_modules"),
                         fmt::format("{} is named, and not the same linear layer of all other layers",
                                     diag::printable(target)),
                         fmt::format("{} is all of them", found->substr(found->rfind('.') + 1)));
      return;
    }
    const std::string meant = diag::nearest(target, last_words(modules));
    diagnostics.report(diag::Kind::adapter_matches_nothing, spec.where("adapter.target_modules"),
                       fmt::format("no linear layer of a block is named {}", diag::printable(target)),
                       meant.empty() ? fmt::format("they are {}; {} is all of them",
                                                   fmt::join(last_words(modules), ", "), kAllLinear)
                                     : fmt::format("did you mean {}?", meant));
  }
}

}  // namespace hydrac::models
