// The tensors of a model: shapes, starting values and names in checkpoints. Their place in memory is the
// pack's (pack.h).
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "models/adapter.h"
#include "models/embed.h"
#include "models/head.h"
#include "models/mlp.h"
#include "models/moe.h"
#include "models/norm.h"
#include "models/recursions.h"
#include "models/router.h"
#include "spec/spec.h"

namespace hydrac::models {

class Attention;

// Slots of a parameter, or of another value with one a layer, that are a value of their own: `first`, first +
// step, .. are its slots 0, 1, ..
struct SlotRun {
  int first = 0, step = 1, slots = 1;
  ir::ValueId value = ir::kNoValue;

  bool has(int slot) const {
    return slot >= first && (slot - first) % step == 0 && (slot - first) / step < slots;
  }
};

// Values of a transformer. A per-layer parameter is one value with a slot a layer; absent ones are kNoValue.
// Matrices are [out, in]. Of a parameter whose layers are not all alike (frozen or trained, dense or routed),
// it is the value of the first run of those that are; at() finds the others.
struct Parameters {
  EmbeddingParameters embedding;
  std::shared_ptr<const Attention> attention;  // with its own
  MlpParameters mlp;
  MoeParameters moe;  // in the mlp's place
  RecursionParameters recursions;
  Norms norms;
  RouterParameters router;
  HeadParameters head;
  std::map<ir::ValueId, std::vector<SlotRun>> runs;
  std::map<ir::ValueId, Adapter> adapters;  // by the matrix that they adapt

  // `slot` counts those of the whole parameter; that of any other value stays as it is.
  ir::Use at(ir::ValueId value, ir::Slot slot) const;
  int layers_of_iteration = 1;
  // The iterations of a loop over all layers with which parameters become others, 0 too, and perhaps one
  // behind the last.
  std::set<int> first_iterations() const;
};

Parameters declare_parameters(ir::Graph& graph, const spec::Spec& spec);

// Rows that the token embedding and the head's matrix have in memory: on a GPU model.vocab_size rounded up,
// so that matmuls over the vocabulary run on aligned tiles. The rows beyond it are 0 and stay 0; checkpoints
// do not have them. Those of all ranks that share the vocabulary together, which have equal parts.
int64_t vocab_rows(const spec::Spec& spec);
// Those that one process has.
int64_t vocab_rows_of_one(const spec::Spec& spec);
// Rows that a rank has; some of the last ranks' may be padding.
int64_t own_vocab_rows(const spec::Spec& spec);

// Whether ranks that share layers divide the rows of the residual stream too, and compute norms of their own
// ones alone (Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022).
// Between matmuls then stands, instead of a sum over ranks, a rank's part of it; in front of the next one
// ranks gather their rows.
bool divides_stream(const spec::Spec& spec);
// Of a micro-batch's rows, B * T, those that a rank has: the r-th ones.
ir::Dim stream_rows(const spec::Spec& spec);
// The origin of what that adds to a model.
inline constexpr const char* kDividedStream = "parallel.tensor";

// The shape of the parameter that one process has.
const ir::Shape& whole_shape(const ir::Value& parameter);

// Rows of a parameter that its checkpoint names; those beyond are padding.
int64_t checkpoint_rows(const ir::Value& parameter);

// The module that a weight's tensor belongs to: its name without ".weight".
std::string module_of(const ir::CheckpointPart& weight);

// Tensors that the family's checkpoints have and this model lacks: biases and position embeddings,
// which add nothing where they are zeros.
struct ZeroTensor {
  std::string name;
  std::vector<int64_t> shape;
};
std::vector<ZeroTensor> checkpoint_zeros(const spec::Spec& spec);

}  // namespace hydrac::models
