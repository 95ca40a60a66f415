// The memory plan: one arena, every tensor at a fixed byte offset, exact before anything runs.
//
// Values of all roles but activation live as long as the program, at the arena's start. Activations are
// placed by liveness: two share bytes when they are never alive at the same time. Functions never overlap in
// time, so they share one space. The arena ends with values that may lie in host memory (Value::on_host); the
// GPU may keep the first part of these, and addresses go on without a gap. Past the arena are placeholder
// addresses of values that no rank has whole (Role::divided).
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace hydrac::plan {

inline constexpr int64_t kAlignment = 256;  // bytes; of every tensor's first slot, and of every slot
inline constexpr int64_t kPage = 2 << 20;   // of both parts of an arena that is partly on the host

// Place of a storage (a value that is no view). Slot s is at offset + (s % slots) * slot_bytes. `slots` is
// the number of all slots if each must be kept, 1 if each dies before the next is written, 2 if only
// neighbours overlap.
struct Placement {
  int64_t offset = 0;
  int64_t slot_bytes = 0;
  int slots = 1;
  int64_t bytes() const { return slot_bytes * slots; }
};

// Half-open ranges of steps of the expanded program in which a storage holds something.
struct Interval {
  int first = 0;
  int last = 0;
};

struct Plan {
  std::map<ir::ValueId, Placement> placements;             // by storage
  std::map<ir::ValueId, int64_t> divided;                  // of Role::divided, by storage: where they begin
  std::map<ir::ValueId, std::vector<Interval>> intervals;  // of activations, for the memory map
  int64_t arena_bytes = 0;
  int64_t persistent_bytes = 0;  // of which values that live as long as the program
  int64_t input_bytes = 0;       // of which inputs, at the arena's start
  int64_t host_bytes = 0;        // of the arena, at its end: in the host's memory
  int64_t kept_bytes = 0;        // before these: of values on_host, but kept on the GPU
  // After the activations: a buffer for numbers that ranks copy between their GPUs. It is no tensor.
  int64_t exchange_offset = 0, exchange_bytes = 0;
  int64_t device_bytes() const { return arena_bytes - host_bytes; }
  std::map<std::string, int64_t>
      live_bytes;  // function -> most bytes of activations alive at once: the lower bound
};

// The GPU keeps the first `kept` bytes of the values that may lie on the host, rounded down to whole pages;
// host memory may begin in the middle of a tensor. `exchange`: Plan::exchange_bytes.
Plan make_plan(const ir::Graph& graph, int64_t kept = 0, int64_t exchange = 0);

// Like make_plan(graph, kept, exchange), but memory that calls on side queues touch (`beside`) is reused half
// a layer later, if the arena then grows by little and is at most `most_bytes`. Memory that is reused at once
// would make the main queue wait for the side queue.
Plan roomy_plan(const ir::Graph& graph, const std::set<ir::ValueId>& beside, int64_t most_bytes,
                int64_t kept = 0, int64_t exchange = 0);

// Byte offset in the arena of a use's first element when the region is at `layer`.
int64_t address(const ir::Graph& graph, const Plan& plan, ir::Use use, int layer);

// Bytes from a use's first element to the end of its last one; between them may lie elements of other views.
int64_t extent(const ir::Graph& graph, ir::Use use);

// Overlapping placements of values alive at the same time, and placements outside the arena: our own bugs,
// one line each.
std::vector<std::string> verify(const ir::Graph& graph, const Plan& plan);

std::string to_text(const ir::Graph& graph, const Plan& plan);

}  // namespace hydrac::plan
