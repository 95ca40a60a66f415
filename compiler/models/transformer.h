// The decoder-only transformer of a spec as graph functions.
//
// A block ends with the norm that the next one starts with (the last block's is the final norm), so the
// residual add and the norm that follows it are neighbours in one region and become one kernel.
#pragma once
#include "ir/graph.h"
#include "models/parameters.h"
#include "ops/builder.h"
#include "spec/spec.h"

namespace hydrac::models {

// Values outside the network that its functions share.
struct Interface {
  ir::ValueId tokens = ir::kNoValue;  // i32 [B,T]
  // Where data.document_mask is true, i32 [B,T,2] and [B,T]: where in its sequence each token's document
  // begins and ends, and the token's position in it.
  ir::ValueId documents = ir::kNoValue, positions = ir::kNoValue;
  ir::ValueId features = ir::kNoValue;   // series: f32 [B,T,F]
  ir::ValueId targets = ir::kNoValue;    // i32 [B,T], -100 = ignored; regression: f32 [B,T,O], NaN = missing
  ir::ValueId inv_count = ir::kNoValue;  // f32 []: 1 / targets that count in the whole optimizer step
  // f32 [], in fp16 only: multiplies the gradient of the loss, see optimizers/loss_scale.h
  ir::ValueId loss_scale = ir::kNoValue;
  ir::ValueId loss = ir::kNoValue;       // f32 []: sum over the micro-batches so far
  ir::ValueId eval_loss = ir::kNoValue;  // f32 []: of the last evaluated batch
  ir::ValueId eval_hits = ir::kNoValue;  // f32 []: targets of it that were predicted; classification only
  ir::ValueId rng_step = ir::kNoValue;   // u32 []: counts micro-batches; dropout's random bits depend on it
  ir::ValueId rng_seed = ir::kNoValue;   // u32 []
  ir::ValueId rope_cos = ir::kNoValue, rope_sin = ir::kNoValue;  // f32 [T, D/2]
  ir::ValueId prompt = ir::kNoValue;                             // i32 [1,T]: generation's context
  ir::ValueId position = ir::kNoValue;  // i32 []: the token of it whose successor is wanted
  ir::ValueId logits = ir::kNoValue;    // f32 [1,V]: its logits, then padding
};

struct Model {
  const spec::Spec& spec;
  ir::Graph& graph;
  Parameters parameters;
  Interface interface;
};

Model declare_model(ir::Graph& graph, const spec::Spec& spec);

// "micro_step": forward with dropout, loss added to interface.loss. To be differentiated.
void build_micro_step(Model& model);
// Appended to "micro_step" once it is differentiated: the next micro-batch draws other random bits.
void advance_randomness(Model& model);
// "evaluate": forward without dropout, interface.eval_loss = inv_count * sum of losses; of
// classification also interface.eval_hits.
void build_evaluate(Model& model);
// "generate": forward of the prompt, interface.logits. Language models only.
void build_generate(Model& model);

}  // namespace hydrac::models
