// Runs a job's forward graph, call by call, with autograd recording.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "oracle/aten/op.h"
#include "oracle/job/graph.h"

namespace hydrac::oracle {

class Runner {
 public:
  // The tensor of a parameter, input or constant; undefined when there is none (an error only if an op reads
  // it).
  using Source = std::function<at::Tensor(int value, int slot)>;
  // Sees every tensor that a node writes.
  using Observer = std::function<void(int value, int slot, const at::Tensor&)>;

  // Checks every node against the table of operations: throws JobError. `graph` must outlive the runner. With
  // `autocast`, a 16-bit type, operations run as under PyTorch's autocast to it; sources are float32 then.
  Runner(const Graph& graph, Mode mode, std::uint32_t seed,
         std::optional<at::ScalarType> autocast = std::nullopt);

  // Scalars; auxiliary, the sum of all terms, is undefined where the graph has none.
  struct Losses {
    at::Tensor loss, auxiliary;
    at::Tensor total() const;  // what training minimizes
  };

  // Activations are let go after their last reader, as they are in a program
  // whose variables go out of scope. Throws JobError, naming the op, its region and layer, when an op fails
  // or its result has another shape than the graph says.
  Losses forward(const Source& source, const Observer& observe = {});

  // The largest numbers of the step's micro-batches become part of the scales of 8-bit matmuls.
  void next_step() { fp8_.next_step(); }

  // Choices of all forward passes so far.
  const Choices& choices() const { return choices_; }

 private:
  // One node in one layer.
  struct Call {
    const OpDefinition* op;
    const Region* region;
    const Node* node;
    int layer;
    std::vector<int> released;  // indices into tensors_: nothing after this call reads them
    int split = -1;             // index into splits_
    int piece = 0;
  };

  // Several split_heads nodes that cut one tensor into pieces without gap or overlap. In training mode the
  // tensor is split once, so that its gradient is one concatenation and not a sum of zero-padded pieces.
  struct Split {
    std::vector<std::int64_t> sizes;
    std::vector<at::Tensor> pieces;
  };

  int index(const SlotRef& ref, int layer) const { return first_slot_[ref.value] + ref.slot(layer); }
  void list_calls();
  void find_last_readers();
  void find_splits();
  at::Tensor run(Call& call);
  at::Tensor compute(Call& call, const std::vector<at::Tensor>& inputs);
  at::Tensor take_loss(int slot);
  at::Tensor take_piece(Call& call, const at::Tensor& whole);

  const Graph& graph_;
  Mode mode_;
  std::uint32_t seed_;
  std::optional<at::ScalarType> autocast_;
  std::vector<int> first_slot_;  // of each value, in tensors_
  std::vector<at::Tensor> tensors_;
  std::vector<Call> calls_;
  std::vector<Split> splits_;
  Tables tables_;
  Fp8Scales fp8_;
  Choices choices_;
};

}  // namespace hydrac::oracle
