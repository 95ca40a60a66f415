#include "runtime/cudnn/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace hydrac::runtime::cudnn {
namespace {

using abi::Attribute;
using abi::AttributeType;
using abi::DescriptorType;

// `count` descriptors of one type, which cuDNN fills from an attribute; returns those that it filled.
std::vector<Descriptor> read_descriptors(const Library& library, const Descriptor& from, Attribute attribute,
                                         DescriptorType type, std::int64_t count) {
  std::vector<Descriptor> descriptors;
  std::vector<abi::Descriptor> raw;
  for (std::int64_t i = 0; i < count; ++i) raw.push_back(descriptors.emplace_back(library, type).get());
  const std::int64_t filled = from.read(attribute, AttributeType::descriptor, count, raw.data());
  descriptors.erase(descriptors.begin() + std::min(filled, count), descriptors.end());
  return descriptors;
}

std::vector<Descriptor> engine_configs(const Library& library, const OperationGraph& graph,
                                       abi::HeuristicsMode mode) {
  Descriptor heuristics(library, DescriptorType::engine_heuristics);
  heuristics.set(Attribute::heuristics_graph, graph.descriptor);
  heuristics.set(Attribute::heuristics_mode, mode);
  heuristics.finalize("heuristics for the graph");
  const std::int64_t count =
      heuristics.read(Attribute::heuristics_results, AttributeType::descriptor, 0, nullptr);
  return read_descriptors(library, heuristics, Attribute::heuristics_results, DescriptorType::engine_config,
                          count);
}

struct Engine {
  std::string name;
  bool deterministic = true;
};

Engine describe(const Library& library, const Descriptor& config) {
  std::vector<Descriptor> engines =
      read_descriptors(library, config, Attribute::engine_config_engine, DescriptorType::engine, 1);
  if (engines.empty()) throw RunError(library.name() + " gave a configuration without an engine");
  Engine engine{fmt::format("engine {}", engines[0].read<std::int64_t>(Attribute::engine_global_index))};

  std::array<abi::NumericalNote, abi::kNumericalNotes> notes{};
  const std::int64_t count = engines[0].read(Attribute::engine_numerical_note, AttributeType::numerical_note,
                                             notes.size(), notes.data());
  const auto end = notes.begin() + std::min<std::int64_t>(count, notes.size());
  engine.deterministic = std::find(notes.begin(), end, abi::NumericalNote::nondeterministic) == end;

  std::map<int, std::int64_t> knobs;
  for (const Descriptor& choice : read_descriptors(library, config, Attribute::engine_config_knob_choices,
                                                   DescriptorType::knob_choice, abi::kKnobTypes)) {
    int type = 0;
    choice.read(Attribute::knob_choice_type, AttributeType::knob_type, 1, &type);
    knobs[type] = choice.read<std::int64_t>(Attribute::knob_choice_value);
  }
  std::string list;
  for (const auto& [type, value] : knobs) list += fmt::format(" {}={}", type, value);
  if (!list.empty()) engine.name += fmt::format(" (knobs{})", list);
  return engine;
}

EnginePlan finished(Descriptor plan, std::string engine) {
  plan.finalize("a plan");
  const auto workspace = plan.read<std::int64_t>(Attribute::plan_workspace_size);
  return {std::move(plan), workspace, std::move(engine)};
}

Descriptor new_plan(const Library& library, abi::Handle handle) {
  Descriptor plan(library, DescriptorType::execution_plan);
  plan.set(Attribute::plan_handle, AttributeType::handle, 1, &handle);
  return plan;
}

// Collects plans until there are enough, and why others are none.
class PlanSearch {
 public:
  PlanSearch(const Library& library, abi::Handle handle, const OperationGraph& graph, bool deterministic,
             int count)
      : library_(library), handle_(handle), graph_(graph), deterministic_(deterministic), count_(count) {}

  bool done() const { return static_cast<int>(plans.size()) >= count_; }

  void search(abi::HeuristicsMode mode, const char* mode_name) {
    try {
      for (const Descriptor& config : engine_configs(library_, graph_, mode)) {
        if (done()) return;
        consider(config);
      }
    } catch (const UnsupportedError& refusal) {
      refuse(mode_name, refusal.what());
    }
  }

  std::vector<EnginePlan> plans;
  std::string refusals;
  std::string only;  // the engine; empty: any

 private:
  void consider(const Descriptor& config) {
    const Engine engine = describe(library_, config);
    // The fallbacks repeat engines of mode A.
    if (!seen_.insert(engine.name).second) return;
    if (!only.empty() && engine.name != only) return;
    if (deterministic_ && !engine.deterministic) return refuse(engine.name, "is not deterministic");
    try {
      Descriptor plan = new_plan(library_, handle_);
      plan.set(Attribute::plan_engine_config, config);
      plans.push_back(finished(std::move(plan), engine.name));
    } catch (const UnsupportedError& refusal) {
      refuse(engine.name, refusal.what());
    }
  }

  void refuse(const std::string& who, const char* why) { refusals += fmt::format("\n  {}: {}", who, why); }

  const Library& library_;
  abi::Handle handle_;
  const OperationGraph& graph_;
  const bool deterministic_;
  const int count_;
  std::set<std::string> seen_;
};

}  // namespace

std::vector<EnginePlan> make_plans(const Library& library, abi::Handle handle, const OperationGraph& graph,
                                   bool deterministic, int count) {
  PlanSearch search(library, handle, graph, deterministic, count);
  search.search(abi::HeuristicsMode::a, "heuristics");
  if (!search.done()) search.search(abi::HeuristicsMode::fallback, "fallback heuristics");
  if (!search.plans.empty()) return std::move(search.plans);
  throw UnsupportedError(
      fmt::format("{} has no engine for this graph{}", library.name(),
                  search.refusals.empty() ? "; its heuristics name none" : ":" + search.refusals));
}

std::optional<EnginePlan> make_plan_of(const std::string& engine, const Library& library, abi::Handle handle,
                                       const OperationGraph& graph, bool deterministic) {
  PlanSearch search(library, handle, graph, deterministic, 1);
  search.only = engine;
  search.search(abi::HeuristicsMode::a, "heuristics");
  if (!search.done()) search.search(abi::HeuristicsMode::fallback, "fallback heuristics");
  if (search.plans.empty()) return std::nullopt;
  return std::move(search.plans.front());
}

std::string plan_json(const EnginePlan& plan) {
  const std::int64_t size = plan.descriptor.read(Attribute::plan_json, AttributeType::character, 0, nullptr);
  std::string json(static_cast<std::size_t>(size), '\0');
  plan.descriptor.read(Attribute::plan_json, AttributeType::character, size, json.data());
  return json;
}

EnginePlan plan_from_json(const Library& library, abi::Handle handle, const std::string& json,
                          std::string engine) {
  Descriptor plan = new_plan(library, handle);
  plan.set(Attribute::plan_json, AttributeType::character, static_cast<std::int64_t>(json.size()),
           json.data());
  return finished(std::move(plan), std::move(engine));
}

}  // namespace hydrac::runtime::cudnn
