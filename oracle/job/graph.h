// The forward graph of a job: values, regions of nodes, and which slot of a value a node touches in which
// layer. A value with `slots` = N is N tensors of one shape. A region with `layers` = 0 runs once, otherwise
// once a layer.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "oracle/job/expression.h"

namespace hydrac::oracle {

enum class Role {
  parameter,
  frozen,
  input,
  constant,
  activation
};  // frozen: a parameter that does not train
enum class Dtype { f32, i32, u32 };

struct Value {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;
  int slots = 1;
  Role role = Role::activation;
  // Rows of a frozen matrix that are stored as 4-bit codes, each part by itself (nf4.h); empty: it is not.
  std::vector<std::int64_t> nf4;
  bool narrow = false;  // under autocast 16 bits wide, whatever wrote it
};

// Names tensor `offset` (fixed) or `layer + offset` (per_layer) of `values[value]`.
struct SlotRef {
  int value = 0;
  bool per_layer = false;
  int offset = 0;

  int slot(int layer) const { return per_layer ? layer + offset : offset; }
};

struct Node {
  std::string op;
  // Numbers and booleans (0 or 1); a nested object's members are named "outer.inner".
  std::map<std::string, double> attrs;
  std::vector<std::optional<SlotRef>> inputs;  // nullopt: an optional input left out
  SlotRef output;
  std::optional<Expression> function;  // of the ops that compute a user's function
};

struct Region {
  std::string name;
  int layers = 0;
  int first_layer = 0;  // of the model, that iteration 0 is: dropout and masks count layers so
  std::vector<Node> nodes;

  int iterations() const { return layers == 0 ? 1 : layers; }
};

struct Graph {
  std::vector<Value> values;
  std::vector<Region> regions;
  int loss = 0;  // index into values: a scalar
  // Index into values: scalars of which every slot that a node writes is a term of what training minimizes
  // beside the loss.
  std::optional<int> auxiliary;
};

}  // namespace hydrac::oracle
