// The building blocks that transformer.cpp strings together. Each adds its nodes to the region it is given.
#pragma once
#include "models/transformer.h"

namespace hydrac::models {

using ir::Use;

// What a function is for. All but `train` drop nothing out; the last three generate, and their sequences are
// one document each.
enum class Phase { train, evaluate, generate, prefill, decode };

// Places in the model that drop out; each has random bits of its own.
enum Site : int64_t {
  kEmbeddingSite,
  kAttentionSite,
  kAttentionResidualSite,
  kMlpResidualSite,
  kAdapterSite  // adapters have this one and all after it
};
inline constexpr int64_t kSitesOfLayer = 64;

// One function's construction: the sequences and tokens that it runs on, and what it is for.
struct Build {
  Model& model;
  ir::Dim batch, tokens;
  Phase phase = Phase::evaluate;
  int first_layer = 0;        // that the nodes being built are of, in the region's first iteration
  bool adapted = true;        // false: without the model's adapters
  Use chosen_positions = {};  // i32 [B,T], where the tokens are some of a sequence: their positions in it
  Use places_in_cache = {};   // i32 [S,1]: of new tokens, where the cache does not have all of a sequence

  bool trains() const { return phase == Phase::train; }
  bool generates() const { return phase >= Phase::generate; }

  // The slot of the layer a loop region is at, and `offset` further on: of a parameter, or of a value with
  // slots for all layers. `none` for a parameter the model does not have.
  Use layer(ir::ValueId value, int offset = 0) const { return model.parameters.at(value, of_layer(offset)); }
  ir::Slot of_layer(int offset = 0) const { return {true, first_layer + offset}; }
  Use fixed(ir::ValueId value, int slot = 0) const { return model.parameters.at(value, {false, slot}); }
  // Whether that layer, or one further on, computes only tokens that its router chooses: the last of each
  // iteration.
  bool is_routed(int ahead = 0) const {
    const int step = model.parameters.layers_of_iteration;
    return step > 1 && (first_layer + ahead) % step == step - 1;
  }
  // Places that drop out, of the layers of an iteration one after another.
  int64_t site(int64_t of_layer) const {
    return of_layer + first_layer % model.parameters.layers_of_iteration * kSitesOfLayer;
  }
  Use ids() const;
  // f32, 1 where the rank has the token in its part of the vocabulary, else 0.
  Use own_ids() const;
  int64_t tensor_ranks() const { return model.spec.parallel.tensor; }
  // Whether each of these has rows of its own of the residual stream, [Tokens, C] instead of [B,T,C].
  bool divides_stream() const { return !generates() && models::divides_stream(model.spec); }
  // The iteration that first_layer is in: of what has a slot for one layer of each.
  int first_iteration() const { return first_layer / model.parameters.layers_of_iteration; }
  // No value where a sequence is one document.
  Use documents() const { return generates() ? Use{} : fixed(model.graph.inputs.documents); }
  // No value where a sequence's tokens are those from 0 on.
  Use positions() const;
  ops::Randomness randomness() const {
    return {fixed(model.graph.state.rng_step), fixed(model.graph.state.rng_seed)};
  }
  // Random numbers for dropout of the residual stream: the same ones, whichever rank has the row.
  ops::Randomness randomness_of_stream() const {
    ops::Randomness random = randomness();
    if (divides_stream()) random.first_row = fixed(model.graph.state.first_row);
    return random;
  }
  // Random numbers for tensors of which ranks that share layers have parts: every rank draws its own.
  ops::Randomness randomness_of_rank() const {
    const ir::ValueId own = model.graph.state.own_seed;
    return {fixed(model.graph.state.rng_step), fixed(own == ir::kNoValue ? model.graph.state.rng_seed : own)};
  }
};

Use optional(Use use);  // with value kNoValue: no operand

// A sequence's rows [B,before+T,..]: of its tokens, and of as many before the first one.
struct WithEarlier {
  Use rows;
  int64_t before = 0;
};
// Rows x [B,T,..] for ops that read `count` tokens before each. Where a function has all tokens of its
// sequences, that is x; "decode" has rows of earlier tokens from a history of the layer, which "prefill"
// starts. `name`: of the history, one for each place in a block.
WithEarlier with_earlier(ops::RegionBuilder&, const Build&, Use x, int64_t count, const std::string& name);

// Adds weight * sum of rows, f32 [..], to what training minimizes in addition to the loss of the targets: the
// mean of the step's micro-batches. The losses that are logged of steps and evaluations leave it out. The
// weight grows linearly over the first `warmup_steps`. Nothing where the function does not train; at most
// once a layer.
void auxiliary_loss(ops::RegionBuilder&, const Build&, Use rows, double weight, int64_t warmup_steps);
// Adds factor * sum of rows, f32 [..], to a metric of the step: the mean of its micro-batches. `sums` names
// the values that layers add to. Nothing where the function does not train; at most once a layer.
void layer_statistic(ops::RegionBuilder&, const Build&, Use rows, double factor, const std::string& sums,
                     const runtime::MetricText& metric);
// The same with inv_count as a row's share, of the head's rows: the metric is the mean of what the loss
// counts.
void loss_statistic(ops::RegionBuilder&, const Build&, Use rows, const std::string& sums,
                    const runtime::MetricText& metric);

// The origin of what drops out of an adapter's input.
inline constexpr const char* kAdapterDropout = "adapter.dropout";

// A linear layer of a block, or several side by side, with its adapters: x [..,in] -> [..,out].
Use projected(ops::RegionBuilder&, const Build&, Use x, ir::ValueId weight, ir::ValueId bias,
              const std::string& name);
// The same where ranks that share layers have a part of the outputs each, and all of x,
Use projected_to_parts(ops::RegionBuilder&, const Build&, Use x, ir::ValueId weight, ir::ValueId bias,
                       const std::string& name);
// or a part of x each, and all outputs: what they compute of these is added up, for the rank's rows of the
// residual stream where they divide that.
Use projected_from_parts(ops::RegionBuilder&, const Build&, Use x, ir::ValueId weight, ir::ValueId bias,
                         const std::string& name);
// Of the rank's rows of the residual stream all ranks' rows [B,T,C], where they divide it. `of_terms`: as
// ops::gather_rows() has it.
Use whole_rows(ops::RegionBuilder&, const Build&, Use x, bool of_terms, const std::string& name);
// Of tensors of all rows [B,T,..], the rank's rows: of x itself, or, where ranks have terms of x, of their
// sum, which is of all rows where they do not divide the stream.
Use own_rows(ops::RegionBuilder&, const Build&, Use x, const std::string& name);
Use sum_of_ranks(ops::RegionBuilder&, const Build&, Use x, const std::string& name);
Use residual_dropout(ops::RegionBuilder&, const Build&, Use x, Site site, const std::string& name);
// A branch's output on its way to the stream: its norm and factor, where the model has them, and dropout.
Use branch_output(ops::RegionBuilder&, const Build&, Use x, const NormParameters&, Site site,
                  const std::string& name);

// Hidden states [..,T,C] of `segments` [..,T] are added to results.reply_embeddings, whose distances follow.
void add_distances(ops::RegionBuilder&, const Model&, Use segments, Use hidden);

}  // namespace hydrac::models
