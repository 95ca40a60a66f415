// Decisions that no pass takes, told as those of passes are: for `hydrac explain`.
#pragma once
#include "ir/graph.h"
#include "models/encoder.h"
#include "models/pack.h"
#include "models/transformer.h"
#include "passes/passes.h"
#include "spec/spec.h"
#include "targets/target.h"

namespace hydrac::driver {

// How long sequences are, and that the program takes them as documents.
void explain_sequence_warmup(const spec::Spec& spec, passes::Log& log);

// Effects of documents.
void explain_documents(const targets::Target& target, passes::Log& log);

// Savings by layers that compute some tokens.
void explain_routing(const spec::Spec& spec, passes::Log& log);

// Effects of ZeRO-1.
void explain_shared_update(const ir::Graph& graph, const models::Pack& pack, passes::Log& log);

// Effects of tensor parallelism.
void explain_shared_layers(const spec::Spec& spec, passes::Log& log);

// The encoder that embeds replies.
void explain_encoder(const ir::Graph& graph, const spec::Encoder& encoder, passes::Log& log);

// How many tokens a cache in pages holds.
void explain_pages(const models::CacheInterface& io, const ir::Graph& graph, passes::Log& log);

// The meaning of a found learning rate.
void explain_found_rate(const spec::Spec& spec, passes::Log& log);

}  // namespace hydrac::driver
