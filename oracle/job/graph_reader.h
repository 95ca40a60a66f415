// "graph" and "loss" of a job file -> Graph. Include it in .cpp files only.
#pragma once
#include "oracle/job/graph.h"
#include "oracle/job/json_reader.h"

namespace hydrac::oracle {

// Value ids become indices. Throws JobError for malformed members, ids and slots that do not exist, a tensor
// that is read before anything writes it, and a tensor that is written twice.
Graph read_graph(JsonReader& job);

}  // namespace hydrac::oracle
