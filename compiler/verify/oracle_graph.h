// Our forward graph in the words of hydrac-oracle (oracle/README.md).
#pragma once
#include <nlohmann/json.hpp>

#include "functions/function.h"
#include "ir/graph.h"

namespace hydrac::verify {

// Routers' choices (models::Interface::places) as the oracle is told of them.
inline constexpr const char* kReplayedChoice = "router.choice";

// Routers' last choices, a slot a layer: indices of tokens [B,T] (mixture of depths), their depths [B,T]
// (mixture of recursions) or experts [B,T,k]; ir::kNoValue for a model without routers.
ir::ValueId kept_choice(const ir::Graph&);
// All slots of it as one tensor.
ir::Shape choices_shape(const ir::Value& kept);

using Json = nlohmann::ordered_json;

// A user's function as data: [op, positions of arguments earlier in the list...]. Some ops have a number or a
// parameter's position instead.
Json function_json(const functions::Function& function);

// Rows of a parameter that padding appended are no business of the oracle's.
ir::Shape unpadded_shape(const ir::Value& value);

// "micro_step" of op-level nodes that are not differentiated.
Json graph_json(const ir::Graph& graph);

}  // namespace hydrac::verify
