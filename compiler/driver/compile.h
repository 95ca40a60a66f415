// The whole pipeline on one page: from a resolved spec to a planned Program. Read this first.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "models/pack.h"
#include "models/transformer.h"
#include "optimizers/optimizer.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "program/program.h"
#include "spec/spec.h"
#include "targets/target.h"

namespace hydrac::driver {

struct CompileOptions {
  int threads = 1;           // the most that will run the program (cpu)
  std::string dump_dir;      // each stage as a numbered text file; empty: none
  int64_t memory_bytes = 0;  // what the plan may take; 0: see memory_limit() in driver/memory_limit.h
  // The program generates with a cache: "prefill" and "decode" instead of "generate". A program with an
  // objective does in any case.
  std::optional<models::Generation> generation = {};
  // GPU targets: see codegen::CudaOptions. Without it every attention is generated.
  std::function<std::optional<int64_t>(const program::AttentionShape&)> cudnn_workspace;
};

// A spec, compiled. Owns its spec, which the graph's builder refers to.
struct Compiled {
  spec::Spec spec;
  int threads = 1;
  ir::Graph graph;
  models::Interface interface;
  models::Pack pack;
  program::Program program;
  plan::Plan plan;
  passes::RecomputeChoice recompute;
  passes::Log decisions;
  passes::MatmulChoices matmuls;  // of GPUs for which there is a matmul kernel
};

// Device memory that the matmuls of a program for a GPU share.
int64_t gemm_workspace_bytes(const targets::Target& gpu);

// The spec's choice of what to compute again; none if it says `auto`.
passes::RecomputeChoice recompute_choice(const spec::Spec& spec);

// The spec's vocab_size, num_features and micro_batch_size must be final (not 0), and optimizations.fit must
// be resolved (driver/fit.h). std::logic_error for our own bugs: a verifier between two stages finds
// something. runtime::InputError if the spec names matmuls that do not exist or cannot be ours
// (driver/asked_matmuls.h).
Compiled compile(const spec::Spec& spec, const passes::RecomputeChoice& recompute,
                 const CompileOptions& options);
// The same with the spec's choice; `auto` is the fastest one that fits the memory (driver/fit.h). Otherwise
// nothing checks that the program fits: see memory_problem().
Compiled compile(const spec::Spec& spec, const CompileOptions& options);

}  // namespace hydrac::driver
