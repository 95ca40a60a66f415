// Our forward graph in the words of hydrac-oracle (oracle/README.md).
#pragma once
#include <nlohmann/json.hpp>

#include "functions/function.h"
#include "ir/graph.h"

namespace hydrac::verify {

// What routers chose (models::Interface::places), and what the oracle is told of it.
inline constexpr const char *kPlaces = "router.places", *kReplayedChoice = "router.choice";

using Json = nlohmann::ordered_json;

// A user's function as data: [op, positions of arguments earlier in the list...]; a number or a parameter's
// position in their place where the op has one.
Json function_json(const functions::Function& function);

// Rows of a parameter that padding appended are no business of the oracle's.
ir::Shape unpadded_shape(const ir::Value& value);

// "micro_step" of op-level nodes that are not differentiated.
Json graph_json(const ir::Graph& graph);

}  // namespace hydrac::verify
