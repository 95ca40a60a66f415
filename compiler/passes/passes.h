// The passes between the differentiated graph and the memory plan, in the order pipeline.cpp runs them. Each
// comment is the pass's contract: what it needs, what holds afterwards.
#pragma once
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cuda/chip.h"
#include "ir/graph.h"
#include "models/pack.h"
#include "models/parameters.h"
#include "models/transformer.h"
#include "passes/log.h"

namespace hydrac::passes {

// Values that the backward pass computes again from what it keeps. Bits equal those of keeping.
struct RecomputeChoice {
  bool norm = false;     // outputs of norms
  bool act = false;      // the mlp's activation
  bool attn = false;     // everything inside the attention block
  bool mlp = false;      // everything inside the mlp block
  bool qk_norm = false;  // normed and rotated queries and keys, where queries and keys are normed
  bool block = false;    // everything but the residual stream between layers
  int layers = 0;        // the model's first ones, which do so; 0: all. For the pass: iterations of loops
  bool any() const { return norm || act || attn || mlp || qk_norm || block; }
  bool operator==(const RecomputeChoice&) const = default;
};
std::string to_string(const RecomputeChoice& choice);  // as optimizations.recompute is written
std::string in_words(const RecomputeChoice& choice);   // "[norm, act] in 3 layers"

// Needs op-level nodes before autodiff, and loops that are cut where their first norm's parameters change
// (from trained to frozen). If a loop and the region after it begin with norms into slots of one value, the
// norm moves to the end of the previous iteration, and the first iteration's to the region before the loop.
// There it follows the residual sum that it reads, so both become one kernel. A region left without nodes
// disappears. The normed value is then loop-carried, as autodiff needs it. Bits do not change.
void rotate_norms(ir::Graph& graph);

// Needs op-level nodes of "micro_step", differentiated, where no loop has layers both below and above
// choice.layers (models::build_micro_step). Backward loops of layers that recompute get copies of the forward
// nodes whose outputs are not kept, and read those copies.
void recompute(ir::Graph& graph, const RecomputeChoice& choice, Log& log);

// Needs op-level nodes of "micro_step", differentiated as if a step were one micro-batch, parameters not yet
// packed. Gradients and the loss become sums over micro-batches. Each micro-batch adds a finished gradient:
// one that is more than a single sum over rows is computed in memory of its own first. So the bits are those
// of adding the micro-batches' gradients in order, whether one process computes them all or several add
// theirs. `head_in_parts`: chunk_head may follow.
void sum_micro_batches(ir::Graph& graph, ir::ValueId loss, bool head_in_parts);

// The processes that share a step.
struct Ranks {
  int64_t count = 1;
  int64_t micro_batches = 1;  // of each of them, a step
};
// Needs the update. Before it, gradients and the loss are summed over all ranks. Afterwards every rank
// computes the same update, or, if ranks share it, gets the sums of its part of the gradients. Random bits
// depend on the global micro-batch index, so each rank skips the indices of the others.
void reduce_over_ranks(ir::Graph& graph, const models::Pack& pack, const models::Interface& interface,
                       const Ranks& ranks);

// Needs the update. Before it, terms are summed: gradients of parameters that each of the `ranks` that share
// layers has whole, but computed only its own terms of (ParameterInfo::partial_gradient).
void sum_partial_gradients(ir::Graph& graph, int64_t ranks);

// Needs all other passes done, steps of one micro-batch, and an update that ranks do not share. The sums over
// ranks of gradients and the loss move from the update into the backward pass, after the last node that
// writes a gradient; those of a layer become one node. They may overlap with later calls. Bits do not change.
void overlap_reduction(ir::Graph& graph, const models::Pack& pack, Log& log);

struct GradientShards {
  bool accumulates = false;  // over micro-batches
  bool beside = false;       // sums run beside the rest of the backward pass, and memory waits for them
};
// Needs all other passes done, and a pack whose gradients are sharded. Each gradient is reduce-scattered
// after the last node that writes it; those of a layer become one node.
void shard_gradients(ir::Graph& graph, const models::Pack& pack, const GradientShards& options, Log& log);
// Needs in_place. The nodes that fetch a layer's weights from ranks or from the host may overlap with the
// previous layer. They start their own iteration, in memory that the plan keeps for a layer more. In a
// backward loop, gathers run an iteration earlier, so that they do not queue behind the sums of the previous
// layer. Before shard_gradients(). Bits do not change.
void fetch_ahead(ir::Graph& graph, Log& log);
// Storages of gradients that nobody but shard_gradients() reads: none where gradients are whole.
std::set<ir::ValueId> sharded_gradients(const ir::Graph& graph, const models::Pack& pack);

// Types that a target computes in. `activations`: the storage type of activations and of what matmuls read.
struct Precision {
  ir::DType activations = ir::DType::f32;
};

// Needs op-level nodes, differentiated, with parameters packed. Activations other than statistics and losses
// get the storage type. Matmuls, embeddings and their gradients read working copies of f32 parameters, packed
// in `working_copy`. The optimizer rewrites the copies after each update; the function "load" does after
// parameters are uploaded. Parameters of the storage type are read directly. With f32 nothing changes. If
// ranks shard weights, whatever the type, or the host holds some, a region of layers begins with nodes that
// fetch the weights it reads (passes/weight_copies.h).
void precision(ir::Graph& graph, const models::Pack& pack, const Precision& precision, Log& log);

// Needs `precision`. Matrices that are kept as 4-bit codes (ParameterInfo::nf4) become activations. Each
// region dequantizes a layer's matrix right before the first matmul that reads it, so the plan keeps one
// matrix at a time. Other functions and the backward pass dequantize it again, with the same bits.
void dequantize(ir::Graph& graph, Log& log);

// Options of 8-bit matmuls.
struct Fp8 {
  ir::DType gradients = ir::DType::f8e5m2;
  bool all = false;             // also where that is slower
  bool head = false;            // of the head too
  bool attention = false;       // of the forward pass of the blocks' attention too
  bool fuses_matmuls = false;   // matmuls of 16 bits take the activation behind them into their kernel
  double tokens = 0;            // of a step: what the first step's gradients are taken to be 1 / of
  double flops_of_16_bits = 0;  // a second, that a library's matmuls reach
  double flops_of_8_bits = 0;
  double bytes_per_second = 0;
  int64_t ranks = 1;  // whose largest values are one
};

// Needs `precision` with bf16; `chunk_head` comes after it. In "micro_step" the matmuls y = x W^T and d_x =
// d_y W of the blocks, and of the head if `head`, become 8-bit matmuls where that is faster: x and W in
// f8e4m3, d_y in `gradients`. If both become 8-bit ones, d_W = d_y^T x may too. A "quantize" writes the
// operand and updates its absmax. The update and "load" compute the scales of the next steps and the 8-bit
// weights, also transposed. With `attention` the blocks' "attention" nodes get the attribute fp8, and their
// backward pass stays as it is. Functions that do not train stay as they are.
void fp8(ir::Graph& graph, const Fp8& options, Log& log);

// How much of the logits is in memory at once.
struct HeadParts {
  int64_t logit_bytes = 0;  // the most that a part's logits take ...
  int64_t least_rows = 0;   // ... unless it would have fewer rows than this: smaller matmuls are slow
};
// Rows of a part: the largest divisor of `rows` whose logits, `row_bytes` a row, fit. If no fitting divisor
// reaches least_rows, the smallest divisor that does.
int64_t rows_of_part(int64_t rows, int64_t row_bytes, const HeadParts& limits);

// Needs op-level nodes, differentiated. The nodes that work on a cross-entropy's logits become a loop region
// over parts of the batch's rows, forward and backward of the head together. So only one part's logits are
// ever in memory; their gradient overwrites them. Hidden states, targets and the hidden states' gradient are
// read and written through views. The loss and the head's gradients add up over the parts in the order of the
// rows, so they equal those of the whole batch within rounding. The gradient of the hidden states is
// bit-identical if a row of its matmul does not depend on the number of rows. A batch that is one part, and a
// head without cross-entropy (regression), stay as they are.
void chunk_head(ir::Graph& graph, const HeadParts& limits, Log& log);

// Matmuls that become kernels of ours, with the fused node behind them.
struct FusedMatmuls {
  cuda::Chip chip{};               // of the GPU
  bool wherever_possible = false;  // also where a library's matmul and a kernel of its own are faster
  int sums_rows_from = 0;          // the layer from which on fused nodes that sum over a row are taken too
  bool only_decode = false;        // in a program that only generates
  // Patterns of names (* ? []), which come before the rest: ours wherever possible, and the library's.
  std::span<const std::string> own = {}, library = {};
};

// The outcome for a matmul that could be ours.
struct MatmulChoice {
  std::string function;  // "micro_step"
  std::string name;      // of its result: "attn.qkv", "d_mlp.up.weight"
  bool is_ours = false;
  bool can_be_ours = false;  // a kernel of ours takes it, perhaps a slower one
  std::string
      together;  // of a weight gradient: the first one's name of those that are one kernel or could be
};
using MatmulChoices = std::vector<MatmulChoice>;

// Needs op-level nodes. A sum of two matmuls that only the sum reads, such as a frozen matrix's and its
// adapter's, becomes one `gemm` with a tail (ops/linear.cpp) if that is faster as a kernel of ours;
// fuse_matmuls() makes that kernel. The sum is then taken in f32, not of two rounded 16-bit numbers: this is
// the only fusion that changes bits, and its result is more exact. Left alone are decode functions, and
// matmuls that the spec asks for by name. Returns the sums that could have been asked for and stay two
// matmuls.
MatmulChoices add_matmul_tails(ir::Graph& graph, const FusedMatmuls& options, Log& log);

// split_qkv and join_qkv disappear: parts become views into the packed value.
void layout(ir::Graph& graph, Log& log);

// Needs op-level nodes, parts of qkv as views. If matmuls alone write the inputs of rope before
// attention_decode, that node applies rope itself (ops::rotation_in_decode), with the same bits; remove_dead
// removes the rope nodes. A norm before rope stays fused with it.
void rotate_in_decode(ir::Graph& graph, Log& log);

// Abilities of a target's matmuls beside multiplying.
struct MatmulEpilogues {
  bool bias = false;  // add a row: gemm's third input
};

// Generated ops become "fused" nodes with a Body; linear becomes gemm, and bias_add where the matmul cannot
// add the bias. Afterwards only fused and library nodes remain.
void expand(ir::Graph& graph, const MatmulEpilogues& epilogues, Log& log);

// Needs expanded nodes. If every reader of a matmul is a fused node over its rows, the matmul loses its bias,
// and each reader adds the bias after loading: in f32 registers, so the sum is not rounded again. A matmul
// that a library's call or the host (`by_host`) reads keeps its bias. remove_dead comes next, because the
// pass leaves stores that nobody reads.
void move_biases(ir::Graph& graph, const std::set<ir::ValueId>& by_host, Log& log);

// Values that must outlive `remove_dead` besides those that are read.
struct Kept {
  std::set<ir::ValueId> by_host;     // values the host reads
  std::set<ir::ValueId> statistics;  // stored as long as their node has another result: OpInfo
};
// The statistics of a graph of op-level nodes.
std::set<ir::ValueId> statistics(const ir::Graph& graph);

// Nodes, and stores of fused nodes, whose results nobody reads disappear.
void remove_dead(ir::Graph& graph, const Kept& kept, Log& log);

// Fused nodes over the same rows of one region merge where one reads what another computes, or both read the
// same tensor. Results do not change: a value that stays in registers is rounded to its type as memory would
// round it.
void fuse(ir::Graph& graph, Log& log);

// Needs fused nodes, and our kernels for attention's backward pass. If this GPU's kernel owns whole heads
// (attention_owns_heads) and a node only sums the packed d_q, d_k and d_v over their rows, the sum becomes
// attention_backward's fourth output. The flag "accumulate" makes it add.
void sum_in_attention(ir::Graph& graph, cuda::Chip chip, Log& log);

// Needs fused nodes. A matmul and the next node that reads it, pointwise over the same rows and columns or
// with sums over the row, become one "fused_matmul"; so does a matmul with its bias. The matmul is rounded as
// memory would round it. It is stored only if something else reads it, in this function or in another one
// that calls the same kernel. A small matmul whose matrix the function does not write becomes a
// "fused_matmul" by itself (`plain_matmul`). Bits equal those of two kernels with two exceptions: sums of a
// matmul or of a row may add in another order, and biases are added to the rounded matmul. Matmuls of one
// token a sequence (decode) have a schedule of their own; those of prompts stay as they are. Returns the
// matmuls that could have been asked for.
MatmulChoices fuse_matmuls(ir::Graph& graph, const FusedMatmuls& options,
                           const std::set<ir::ValueId>& by_host, Log& log);

// Needs expanded nodes. Gradients of f32 weights, matmuls of 16-bit operands over the same rows of one
// region, become one "weight_gradients" node if that is faster than a library's matmuls. It replaces the last
// of them, and their operands live until there. A gradient stays alone if a node in between changes its
// operands. Bits equal those of the matmuls except for the order of sums. Returns the gradients that could be
// one kernel, and those that are asked for.
MatmulChoices gather_weight_gradients(ir::Graph& graph, const FusedMatmuls& options, Log& log);

// A fused node's output takes over the memory of an input that nobody reads afterwards.
void in_place(ir::Graph& graph, Log& log);

// Needs in_place. Tensors that a layer loop of the forward pass makes and its backward loop reads move to
// host memory. One "transfer" follows the last writer; another follows the last reader and fetches what the
// next iteration reads. The residual stream and small tensors stay. Bits do not change.
void offload_activations(ir::Graph& graph, Log& log);

}  // namespace hydrac::passes
