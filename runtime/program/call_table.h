// Reads, writes and origin (the line of the spec) of each call of a program, so that a call that fails, or a
// number that is not finite, is traced to it. hydrac writes it as text (targets/executable/call_table):
//
//   tensor mlp.up 768 12 12 F32 4096 3 2 8 12 96 12 1
//     its name (a suffix after ~ makes it unique and is not printed), bytes from a slot to the next, slots
//     that lie apart, slots, type, byte of slot 0 in the arena, rank, sizes, strides in elements
//   function micro_step
//   section 12 up
//     its calls run once a layer, upwards or down; 0: once
//   call kernel gelu @ model.hidden_act, gpt2.yaml:31
//   uses mlp.up[l] -> mlp.act[l]
//     what it reads, and what it makes: of slot l, of slot l+1, of slot [3], of the only slot
//
// Tensors of integers are in no table.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

namespace hydrac::runtime {

// A tensor of f32, bf16 or f16 in the arena, or a part of one.
struct TensorView {
  std::string name;  // "mlp.up[3]"
  SafetensorsDtype dtype = SafetensorsDtype::f32;
  int64_t offset = 0;                   // of its first element, in bytes from the arena's start
  std::vector<int64_t> shape, strides;  // in elements

  int64_t bytes() const;  // from its first element to the end of its last one
};

struct TracedCall {
  std::string name;    // "kernel gelu"
  int layer = -1;      // -1: of none
  std::string origin;  // "model.hidden_act, gpt2.yaml:31"
  std::vector<TensorView> reads, makes;

  std::string text() const;  // "kernel gelu of layer 3 (model.hidden_act, gpt2.yaml:31)"
};

class CallTable {
 public:
  CallTable() = default;
  explicit CallTable(const std::string& text);

  bool empty() const { return functions_.empty(); }
  // A function's calls in the order in which they run, loops over layers unrolled.
  std::vector<TracedCall> of(std::string_view function) const;

 private:
  struct Tensor {
    TensorView first;  // slot 0
    int64_t stride = 0, apart = 1, slots = 1;
  };
  struct Use {
    size_t tensor = 0;  // position in tensors_
    bool per_layer = false;
    int64_t slot = 0;  // or what is added to the layer
  };
  struct Call {
    std::string name, origin;
    std::vector<Use> reads, makes;
  };
  struct Section {
    int layers = 0;
    bool down = false;
    int first_layer = 0;  // of the model, that the section's loop begins with
    std::vector<Call> calls;
  };
  struct Function {
    std::string name;
    std::vector<Section> sections;
  };

  Use read_use(const std::string& word) const;
  std::vector<TensorView> views(const std::vector<Use>& uses, int layer) const;

  std::vector<Tensor> tensors_;
  std::vector<Function> functions_;
};

}  // namespace hydrac::runtime
