// Finding numbers that are none in a program's memory, wherever that is, and saying where they stand.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/compile.h"

namespace hydrac::targets {

// Copies bytes of the arena, from `offset` on, to the host.
using ReadArena = std::function<void(int64_t offset, std::span<std::byte> to)>;

struct NonFinite {
  int64_t count = 0, elements = 0;  // so many of so many elements are NaN or infinite
  std::vector<int64_t> first;       // the position of the first in row-major order
  bool nan = false;                 // which of both the first is
};

// Of an f32, bf16 or f16 tensor with these sizes and strides (in elements) over `bytes`.
std::optional<NonFinite> non_finite(std::span<const std::byte> bytes, ir::DType dtype,
                                    std::span<const int64_t> sizes, std::span<const int64_t> strides);

// The tensor that a use names at `layer`; a view's own elements only. Tensors of integers have none.
std::optional<NonFinite> non_finite(const driver::Compiled& compiled, ir::Use use, int layer,
                                    const ReadArena& read);

// "residual[3]": the tensor of a use at `layer`.
std::string tensor_name(const ir::Graph& graph, ir::Use use, int layer);

// Where in what the user wrote a key of a spec, or one of a section's keys, stands:
// "model.norm, spec.yaml:12", "model.norm on the command line", "model.norm, by default".
std::string place_of(const spec::Spec& spec, const std::string& key);

// One call of a program as it runs.
struct CallPlace {
  const program::Section& section;
  const program::Call& call;
  int layer;
};

// "kernel add_layernorm of layer 3 (model.norm, spec.yaml:12)"
std::string to_text(const driver::Compiled& compiled, const CallPlace& place);

// What a call that just ran wrote, if there is something non-finite in it, and whether that came from what it
// read: "kernel gelu of layer 3 (model.hidden_act, spec.yaml:9) wrote infinity to mlp.act[3] in 3 of 4096
// elements, the first at [0, 5, 12]; all that it read is finite". What it overwrote of its own inputs is not
// seen.
std::optional<std::string> non_finite_results(const driver::Compiled& compiled, const CallPlace& place,
                                              const ReadArena& read);

// The same of the first tensor under its name in a checkpoint that is not finite: parameters, then optimizer
// state: "the parameter model.norm.weight holds NaN in ...".
std::optional<std::string> non_finite_state(const driver::Compiled& compiled, const ReadArena& read);

}  // namespace hydrac::targets
