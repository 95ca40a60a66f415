// The compiler's one graph: values (tensors), nodes (operations), and regions of nodes that run once or once
// a layer.
//
// A region with `layers` = N is a loop: its nodes are written once and run for l = 0..N-1 (downwards when
// `reverse`). A value has `slots` separate tensors; a node names the slot it means, either fixed or counted
// from the layer: slot(l) = l + index. So the residual stream is one value with N+1 slots of which layer l
// reads l and writes l+1, and a parameter of every layer is one value with N slots.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "functions/function.h"
#include "ir/body.h"
#include "ir/op.h"
#include "ir/ports.h"
#include "ir/type.h"

namespace hydrac::ir {

enum class Role {
  input,            // written by the host before the step: tokens, targets, ...
  constant,         // filled at start and never written again: rope tables
  parameter,        // trained
  frozen,           // a parameter that does not train: read alone
  gradient,         // of a parameter; accumulated over micro-batches
  working_copy,     // of parameters, in the type that matmuls read; the update writes it
  divided,          // fp32 parameters that no rank has whole: addresses behind the arena, and no memory
  master,           // of these what a rank has in fp32: its part, and copies of those that are read so
  optimizer_state,  // moments
  state,            // small device-side state: step counter, learning rate, random step, metrics
  activation,       // everything else; the memory plan decides where it lives and how long
};
std::string_view to_string(Role role);

// How a parameter starts.
struct Init {
  enum class Kind { zeros, ones, constant, normal, uniform } kind = Kind::zeros;
  double number = 0;  // the constant, the normal distribution's standard deviation, the uniform one's bound
};

// A checkpoint tensor that holds rows [first_row, first_row + rows) of a parameter's slot, under a Hugging
// Face name in which {} stands for the layer. `transposed`: the checkpoint stores [in, out] (GPT-2).
struct CheckpointPart {
  std::string name;
  int64_t first_row = 0;
  int64_t rows = 0;
  bool transposed = false;
  int first_slot = 0;  // the slots this name covers, both ends included
  int last_slot = 0;
};

struct RowRange {
  int64_t first = 0, count = 0;
};

// The values that hold a matrix as 4-bit codes (hydrac/nf4.h). Each slot has codes u8 [rows, columns / 2],
// 8-bit codes of each block's absmax u8 [rows, columns / 64], and groups f32 [groups, 2], the scale and mean
// of 256 blocks each. `parts`: ranges of rows that were quantized together; their groups are consecutive.
struct Nf4Storage {
  ValueId codes = kNoValue, block_codes = kNoValue, groups = kNoValue;
  std::vector<RowRange> parts;
};

// A parameter that is sharded over `ranks` ranks (parallel.tensor); the value is this rank's shard. `whole`
// is the shape that one process has. On axis 0 each entry of `rows` is divided by itself, as queries, keys
// and values are: of `count` rows from `first` on, rank r has the r-th `own` rows. The last ranks may have
// fewer, followed by padding. A rank's stretches are consecutive. On axis 1 rank r has the r-th block of
// columns.
struct Split {
  struct Rows {
    int64_t first = 0, count = 0, own = 0;
  };
  int64_t ranks = 1;
  int axis = 0;
  Shape whole;
  std::vector<Rows> rows;
};

// Elements of a parameter's slots in the pack that one process has: slot s begins at offset + s * stride.
struct WholePlace {
  int64_t offset = 0, stride = 0;
};

struct ParameterInfo {
  Init init;
  bool decay = false;  // takes weight decay
  // The layers of a parameter that only some layers have: the layer of slot 0, and the distance between the
  // layers of neighbouring slots.
  int first_layer = 0, layer_step = 1;
  double token_share = 1;  // of all tokens, those that it is multiplied with
  // Floating-point operations a token and weight of a matmul: 2 forward, 2 for the input's gradient, 2 for
  // the weight's. A frozen weight has fewer.
  int flop = 6;
  std::vector<CheckpointPart> checkpoint;
  // The matrices of a layer that it is made of: queries, keys and values, gate and up. None of embeddings,
  // the head, convolutions and vectors, which some optimizers treat differently.
  std::vector<RowRange> matrices;
  // A frozen matrix that is kept so. Its own numbers exist only around the matmuls that read them:
  // passes::dequantize.
  std::optional<Nf4Storage> nf4;
  // Absent where a rank has all of it. `checkpoint` counts the rows of the whole.
  std::optional<Split> split;
  bool on_host = false;           // what layers read of it lies in the host's memory: passes/weight_copies.h
  bool partial_gradient = false;  // what ranks that share layers compute of its gradient are terms of a sum
  WholePlace whole_place = {};    // of trained ones, where ranks share layers
};

// Rows that ranks share. Of `rows` rows of all ranks together, in order, each rank holds `own` at the same
// place; if ranks * own exceeds `rows`, the last ranks' rows end in padding. There are `times` such
// stretches, one after another.
struct SharedRows {
  int64_t rows = 0, own = 0;
  int64_t times = 1;
};

// A value inside another one. Element [i...] of slot s is element offset + s * slot_stride + sum(i * strides)
// of a slot of `base`: slot s if slot_stride is 0, else `base_slot`, which then holds all slots of the view.
struct View {
  ValueId base = kNoValue;
  int64_t offset = 0;
  int64_t slot_stride = 0;
  std::vector<int64_t> strides;
  int base_slot = 0;
};

struct Value {
  ValueId id = kNoValue;
  std::string name;  // by its role in the model: "attn.qkv", "d_attn.qkv"
  DType dtype = DType::f32;
  Shape shape;
  int slots = 1;
  Role role = Role::activation;
  bool exact = false;    // a statistic or a loss: stays f32 whatever the precision of activations
  bool on_host = false;  // of a GPU's program: may lie in the host's memory (plan/plan.h); no activation
  std::optional<ParameterInfo> parameter;
  std::optional<View> view;
  std::vector<SharedRows> shared = {};  // of optimizer state that ranks share: all of its rows, in order

  bool trains() const { return parameter && role == Role::parameter; }
};

struct Slot {
  bool per_layer = false;
  int index = 0;  // the slot, or what is added to the layer
  int at(int layer) const { return index + (per_layer ? layer : 0); }
  auto operator<=>(const Slot&) const = default;
};

struct Use {
  ValueId value = kNoValue;
  Slot slot;
  auto operator<=>(const Use&) const = default;
};

// The last one: a user's function that the node computes.
using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<double>,
                               std::shared_ptr<const functions::Function>>;
using Attributes = std::map<std::string, Attribute>;

struct Node {
  Op op = Op::fused;  // which is nothing without its body
  Attributes attributes;
  std::vector<Use> inputs;
  std::vector<Use> outputs;
  std::string scope;   // the part of the model it belongs to: "attn", "mlp", "norm", "head", "optimizer"
  std::string origin;  // the spec key that asked for it: "model.hidden_act"
  // Body of Op::fused, and epilogue of a "fused_matmul": a matmul fused with the kernel after it, whose first
  // two inputs are A and B.
  std::shared_ptr<const Body> body;
  // The matmul's result in a "fused_matmul", which its epilogue has in registers. Its body sees it as the
  // input after the node's inputs. It is in memory only if it is an output too.
  Use matmul = {};

  bool flag(const std::string& key) const;
  bool optional_flag(const std::string& key) const;  // false where the node has no such attribute
  int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;
};

struct Region {
  std::string name;
  int layers = 0;  // 0: runs once
  bool reverse = false;
  bool backward = false;
  std::vector<Node> nodes;
  // The index of iteration 0 among all of the model's layers; kernels count from it. An iteration is a layer,
  // or several of different kinds (spec::layers_of_iteration).
  int first_layer = 0;
};

// An entry point: regions that run one after another. Values are shared between functions.
struct Function {
  std::string name;  // "micro_step", "update", "evaluate", "generate"
  std::vector<Region> regions;
};

class Graph {
 public:
  std::vector<Value> values;
  std::vector<Function> functions;
  InputPorts inputs;
  StatePorts state;
  ResultPorts results;
  std::vector<Metric> metrics;

  Value& value(ValueId id) { return values[id]; }
  const Value& value(ValueId id) const { return values[id]; }
  const Value& value(Use use) const { return values[use.value]; }
  ValueId add(Value value);  // sets its id
  Function& function(const std::string& name);
  const Function& function(const std::string& name) const;
  ValueId find(const std::string& name) const;  // kNoValue where there is none
  std::vector<ValueId> reported() const;        // all results and metrics
};

// The value at the end of a chain of views, and the view that leads there directly.
ValueId storage_of(const Graph& graph, ValueId id);
View resolved_view(const Graph& graph, ValueId id);
// The slot of its storage that a use lies in.
Slot storage_slot(const Graph& graph, Use use);

std::string to_text(const Graph& graph);
std::string to_text(const Graph& graph, const Node& node);
std::string to_text(const Graph& graph, Use use);  // "residual[l+1]", "-" for no value

// The epilogue of a "fused_matmul" as a "fused" node, with the matmul as its last input.
Node epilogue_of(const Node& matmul);

// Our own bugs, found between passes: a use of a value nobody wrote, a slot out of range, a body that indexes
// out of bounds or mixes column spaces, two writers. Returns one line a problem; empty when all is well.
std::vector<std::string> verify(const Graph& graph);

}  // namespace hydrac::ir
