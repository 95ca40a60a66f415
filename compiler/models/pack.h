// The place in memory of the trained tensors of a model, and of what goes with each.
//
// All trained parameters lie in one packed value, "parameters", first those that take weight decay. So an
// optimizer is one pointwise kernel over the pack, and a gradient, a moment and a parameter have the same
// offset in their packs. Where gradients or moments have two types, or the optimizer is two, the pack has
// several groups, each with a pack of gradients. Frozen parameters lie in packs of their own, which nothing
// writes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "spec/spec.h"

namespace hydrac::models {

// A pack is declared as [rows, row], and the decayed part of a group ends at a whole row. `row` is kPackRow;
// with 8-bit moments kStateBlock, the elements that have one scale. There every tensor that has 8-bit moments
// starts with a row, so that it shares no scale with another. Tensors of fewer elements have exact ones: they
// take little memory, and norms and biases mind more than matrices. As bitsandbytes has both numbers.
inline constexpr int64_t kPackRow = 1024, kStateBlock = 256, kFewestQuantized = 4096;

// What a pack's elements are stored as.
struct PackTypes {
  ir::DType parameters = ir::DType::f32;
  // Of matrices whose gradient one matmul writes, in one piece. What is added up in memory (a tied
  // embedding, micro-batches), and the sums over rows that are vectors' gradients, stay f32.
  ir::DType gradients = ir::DType::f32;
  // What matmuls and embeddings read; the frozen parameters that they read are stored so, others as
  // `parameters`.
  ir::DType matmuls = ir::DType::f32;
  ir::DType moments = ir::DType::f32;  // u8: codes, of the tensors that are large enough,
  bool exact_embeddings = false;       // and no embeddings
  bool head_in_parts = false;          // the head's gradient is going to add up over parts: passes/chunk_head
  int64_t sharing_ranks = 1;           // that share the update, see Pack
  bool shards_gradients = false;       // each of them keeps its part of the gradients alone, see Pack
  bool shards_weights = false;         // and of the weights that matmuls read, see Pack
  bool gathers_ahead = false;          // in the backward pass: passes/fetch_ahead
  int64_t tensor_ranks = 1;            // that share layers
};

// "d_<parameter>". std::logic_error where no gradient reaches it.
ir::ValueId gradient_of(const ir::Graph& graph, const ir::Value& parameter);

// As the spec asks for them, where activations are stored as `activations`.
PackTypes pack_types(const spec::Spec& spec, ir::DType activations);

// Rows of a group that ranks divide by themselves: rank r has the r-th part of each slot. Either the slots of
// one parameter, whose rows the ranks divide without a rest, or one slot of all rows between such parameters,
// which ends in padding. Decayed and other rows have stretches of their own.
struct Stretch {
  std::string name;                   // of the parameter, or "rest" and "vectors"
  ir::ValueId member = ir::kNoValue;  // that parameter
  int slots = 1;
  int64_t rows = 0;           // of a slot, without padding
  int64_t own = 0;            // of a slot, of each rank
  int64_t first_row = 0;      // of slot 0, in the group
  int64_t first_own_row = 0;  // likewise, in what a rank has of the group
  int64_t place = 0;          // likewise, in the group as one process has it, which has no padding in between
  // All rows of a slot, own * ranks of them: the member, or [rows, row], and likewise their gradients.
  ir::ValueId parameters = ir::kNoValue, gradients = ir::kNoValue;
  ir::ValueId own_gradients = ir::kNoValue;  // [own, row] of each slot
};

// Trained parameters with one optimizer and one type of gradients and moments: the rows of the pack that one
// kernel updates.
struct ParameterGroup {
  std::string name;  // "hidden", "matmuls", "sums_fp32_state"; empty where it is the whole pack
  spec::Optimizer optimizer = spec::Optimizer::adamw;
  ir::DType moments = ir::DType::f32;
  std::vector<ir::ValueId> members;
  ir::ValueId parameters = ir::kNoValue;  // [rows, row]: the pack, or a view of these rows
  // [rows, row], packed the same way; where ranks keep their parts alone, what stretches without a member
  // have, one behind the other, or none.
  ir::ValueId gradients = ir::kNoValue;
  // What a rank updates: these themselves, or where ranks share the update copies of its rows of them.
  ir::ValueId own_parameters = ir::kNoValue, own_gradients = ir::kNoValue;
  int64_t first_row = 0;  // in the pack
  ir::Dim rows;           // of the group, padding included
  int64_t used_rows = 0;  // those without padding
  // In front of what a rank has of the group: room for the layer below the first one, which a loop that
  // gathers the layer below its own reads in its last iteration, and nobody uses.
  int64_t rows_ahead = 0;
  // Of these, at their start; and of the rows that a rank updates.
  int64_t decayed_rows = 0, own_decayed_rows = 0;
  std::vector<Stretch> stretches;  // where ranks share the update: all rows, in order
  // Where ranks share layers: of the `used_rows`, of the decayed ones and of the others, those with
  // parameters of which each has a part. The rest is on all of them.
  std::vector<ir::RowRange> split_rows;
};

// Ranks that share the update (ZeRO) have an equal number of rows of each stretch of a group: rank r updates
// the r-th part. Where matmuls read working copies no rank needs all of the fp32 parameters: own_parameters
// are all that it has, and lasts (Role::divided).
//
// `shards_gradients`: a rank keeps own_gradients, and sums micro-batches there (Role::gradient). A parameter
// that is a stretch of its own has its gradient in memory that activations have at other times.
//
// `shards_weights`: is_divided, whatever the types. What layers read of parameters that are stretches of
// their own is gathered by each of them, see passes/weight_copies.h. So are frozen matrices that only layers
// read (`frozen`), in the type in which they do.
struct Pack {
  ir::ValueId parameters = ir::kNoValue;  // [rows, row]
  int64_t row = kPackRow;
  int64_t sharing_ranks = 1;
  // One after another; those of one optimizer are neighbours, and among them those with one type of moments.
  std::vector<ParameterGroup> groups;
  // Of `shards_weights`, where there are such: each member is a stretch, and nothing has gradients.
  std::optional<ParameterGroup> frozen;
  ir::DType matmuls = ir::DType::f32;  // what matmuls read
  bool is_divided = false;
  bool shards_gradients = false, shards_weights = false;
  int64_t tensor_ranks = 1;  // that share layers
  int64_t whole_rows = 0;    // of the pack that one process has, in which ParameterInfo::whole_place counts
};

// Needs "micro_step" differentiated, every trained parameter with its gradient "d_<parameter>". Gives
// parameters and gradients their types and their places; their views lead into the packs.
Pack pack_parameters(ir::Graph& graph, spec::Optimizer optimizer, const PackTypes& types = {});

// Groups of whose parameters a rank has a part alone.
std::vector<const ParameterGroup*> divided_groups(const Pack& pack);

// A group's rows of a value that has a row for each of the pack's from `first_row` on: the value itself where
// these are all of its rows, else a new view.
ir::ValueId rows_of(ir::Graph& graph, const ParameterGroup& group, ir::ValueId packed, int64_t first_row = 0);
// Likewise the rows that a rank updates, of a value that has a row for each of those.
ir::ValueId own_rows_of(ir::Graph& graph, const Pack& pack, const ParameterGroup& group, ir::ValueId packed,
                        int64_t first_row);

}  // namespace hydrac::models
