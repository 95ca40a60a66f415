// Finds NaN and infinities in a program's memory, wherever that is, and describes where they are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/program/call_table.h"
#include "runtime/program/step_program.h"

namespace hydrac::runtime {

// Copies bytes of the arena, from `offset` on, to the host.
using ReadArena = std::function<void(int64_t offset, std::span<std::byte> to)>;

struct NonFinite {
  int64_t count = 0, elements = 0;  // so many of so many elements are NaN or infinite
  std::vector<int64_t> first;       // the position of the first in row-major order
  bool nan = false;                 // which of both the first is
};

// Searches the view's own elements; `bytes` begin at the first one. Tensors of integers have none.
std::optional<NonFinite> non_finite(const TensorView& view, std::span<const std::byte> bytes);

// The non-finite results of a call that just ran, and whether they came from its operands. Example: "kernel
// gelu of layer 3 (model.hidden_act, spec.yaml:9) wrote infinity to mlp.act[3] in 3 of 4096 elements, the
// first at [0, 5, 12]; all that it read is finite". nullopt: none. Inputs that it overwrote are not looked
// at.
std::optional<std::string> non_finite_results(const TracedCall& call, const ReadArena& read);

// The first of these tensors that holds something non-finite: "the parameter lm_head.weight holds NaN in
// ...", where `kind` is "parameter".
std::optional<std::string> non_finite_tensor(const std::vector<NamedTensor>& tensors, const char* kind,
                                             const ReadArena& read);

}  // namespace hydrac::runtime
