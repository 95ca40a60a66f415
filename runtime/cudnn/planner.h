// From a graph of operations to something that runs it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cudnn/graph.h"

namespace hydrac::runtime::cudnn {

struct EnginePlan {
  Descriptor descriptor;
  std::int64_t workspace_bytes = 0;  // of the engine itself
  std::string engine;                // "engine 4 (knobs 24=6)"
};

// At most `count` plans for the graph, at least one, in the order of cuDNN's heuristics (mode A, then
// fallbacks), without engines that refuse it and, if it must be `deterministic`, those that say they are not.
// `handle` is the one that the graph was built with and that will run the plans. If there is no plan,
// UnsupportedError that names every rejected engine and why; RunError if cuDNN fails otherwise.
std::vector<EnginePlan> make_plans(const Library& library, abi::Handle handle, const OperationGraph& graph,
                                   bool deterministic, int count);
// The plan of the engine with that name (EnginePlan::engine); nullopt if the heuristics have none, or it
// refuses the graph.
std::optional<EnginePlan> make_plan_of(const std::string& engine, const Library& library, abi::Handle handle,
                                       const OperationGraph& graph, bool deterministic);

// All of a plan, compiled code included, for this version of cuDNN and this GPU.
std::string plan_json(const EnginePlan& plan);
// The plan again, in milliseconds instead of half a second. Throws RunError when cuDNN does not accept it.
EnginePlan plan_from_json(const Library& library, abi::Handle handle, const std::string& json,
                          std::string engine);

}  // namespace hydrac::runtime::cudnn
