// Components are the parts that layers.cpp makes a model of: embedding, norm, attention, mlp, experts,
// router, recursions, head. Each has a file that declares its parameters and adds its nodes; its keys'
// refusals are the spec's (compiler/spec/check_*.cpp).
#pragma once
#include <vector>

#include "ir/graph.h"
#include "ops/builder.h"
#include "spec/spec.h"

namespace hydrac::models {

class Declarer;
struct Build;
using ir::Use;
using ir::ValueId;

}  // namespace hydrac::models
