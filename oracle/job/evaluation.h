// The model as it is evaluated: what only training does is left out.
#pragma once
#include "oracle/job/graph.h"

namespace hydrac::oracle {

// The same values and nodes without dropout, label smoothing, weights of targets and matmuls of 8 bits.
Graph evaluation_graph(Graph graph);

}  // namespace hydrac::oracle
