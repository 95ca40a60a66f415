#include "driver/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "autodiff/autodiff.h"
#include "codegen/cpu/program.h"
#include "codegen/cuda/program.h"
#include "driver/asked_matmuls.h"
#include "driver/decisions.h"
#include "driver/dump.h"
#include "driver/exchange.h"
#include "driver/fit.h"
#include "driver/floor.h"
#include "driver/generation.h"
#include "driver/memory_limit.h"
#include "driver/overlap.h"
#include "driver/pass_options.h"
#include "models/adapter.h"
#include "models/freeze.h"
#include "models/nf4.h"
#include "program/cost.h"
#include "spec/checks/attention_tiles.h"
#include "targets/target.h"

namespace hydrac::driver {

namespace {

void demand(const std::string& stage, const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  throw std::logic_error(fmt::format("after {}:\n  {}", stage, fmt::join(problems, "\n  ")));
}

// Values that no pass may find dead; of op-level nodes.
passes::Kept kept_values(const Compiled& c) {
  const std::vector<ir::ValueId> reported = c.graph.reported();
  passes::Kept kept{{reported.begin(), reported.end()}, passes::statistics(c.graph)};
  kept.by_host.merge(passes::sharded_gradients(c.graph, c.pack));
  return kept;
}

// If a step is one micro-batch, ranks that share the update can reduce each gradient as soon as it is
// finished, and need it whole only until then.
models::PackTypes pack_types_of(Compiled& c) {
  models::PackTypes types = models::pack_types(c.spec, precision_of(c.spec).activations);
  const bool is_gpu = !targets::find(c.spec.target)->is_cpu();
  if (types.sharing_ranks > 1 && types.tensor_ranks == 1 && !types.shards_gradients && is_gpu &&
      spec::micro_batches_of_step(c.spec) == 1)
    types.shards_gradients = overlaps_sums(c, c.decisions);
  types.gathers_ahead = is_gpu;
  return types;
}

// Our matmuls, as the pipeline has them.
void choose_matmuls(Compiled& c, const std::set<ir::ValueId>& by_host) {
  const passes::FusedMatmuls options = matmul_fusion(c.spec, c.recompute, false);
  for (const passes::MatmulChoices& choices :
       {passes::fuse_matmuls(c.graph, options, by_host, c.decisions),
        passes::gather_weight_gradients(c.graph, options, c.decisions)})
    c.matmuls.insert(c.matmuls.end(), choices.begin(), choices.end());
  require_asked_matmuls(c.spec, c.matmuls);
}

// Storages that calls of other queues than the main one read or write.
std::set<ir::ValueId> touched_beside(const Compiled& c) {
  std::set<ir::ValueId> storages;
  for (const program::Function& function : c.program.functions) {
    for (const program::Section& section : function.sections) {
      for (const program::Call& call : section.calls) {
        if (call.queue == program::Queue::main) continue;
        for (ir::Use use : call.arguments) storages.insert(storage_of(c.graph, use.value));
      }
    }
  }
  return storages;
}

program::Program build_program(Compiled& c, const targets::Target& target, const CompileOptions& options) {
  if (target.is_cpu()) return codegen::build_cpu_program(c.graph, options.threads);
  auto no_cudnn = [](const program::AttentionShape&) { return std::optional<int64_t>(); };
  codegen::CudaOptions cuda{&target, options.cudnn_workspace, gemm_workspace_bytes(target),
                            static_cast<int>(c.spec.optimizations.streams), spec::attention_tiles(c.spec)};
  if (!cuda.cudnn_workspace) cuda.cudnn_workspace = no_cudnn;
  return codegen::build_cuda_program(c.graph, cuda);
}

// Limit of a plan with room for the side queue: room costs little where a model is small, and then only.
int64_t most_with_room(const targets::Target& target, int64_t given) {
  const auto half = static_cast<int64_t>(target.memory_gib / 2 * (int64_t{1} << 30));
  return given > 0 ? std::min(half, given) : half;
}

// The moments, among those that may lie on the host, that the spec leaves on the GPU.
int64_t moments_kept(const Compiled& c) {
  double bytes = 0;
  for (const ir::Value& value : c.graph.values) {
    if (value.on_host && value.role == ir::Role::optimizer_state)
      bytes += static_cast<double>(element_count(value.shape) * value.slots * size_of(value.dtype));
  }
  return static_cast<int64_t>((1 - c.spec.optimizations.offload.optimizer_state) * bytes);
}

// The plan's offsets are sums of these.
void require_countable(const ir::Graph& graph) {
  double bytes = 0;
  for (const ir::Value& value : graph.values)
    bytes += static_cast<double>(element_count(value.shape)) * static_cast<double>(value.slots) *
             static_cast<double>(size_of(value.dtype));
  if (bytes > 0x1p62) throw ir::SizeOverflow();
}

}  // namespace

passes::RecomputeChoice recompute_choice(const spec::Spec& spec) {
  const spec::Recompute& r = spec.optimizations.recompute;
  passes::RecomputeChoice choice = {.norm = r.norm,
                                    .act = r.act,
                                    .attn = r.attn,
                                    .mlp = r.mlp,
                                    .qk_norm = r.qk_norm,
                                    .block = r.mode == spec::Recompute::Mode::block};
  const int64_t layers = spec.optimizations.recompute_layers;
  if (choice.any() && layers < spec.model.num_hidden_layers) choice.layers = static_cast<int>(layers);
  return choice;
}

// cuBLASLt's advice for Hopper, and what suffices before.
int64_t gemm_workspace_bytes(const targets::Target& gpu) {
  return (gpu.capability >= 90 ? 32 : 8) * int64_t{1} << 20;
}

Compiled compile(const spec::Spec& spec, const passes::RecomputeChoice& recompute,
                 const CompileOptions& options) {
  const targets::Target& target = *targets::find(spec.target);
  demand("spec", waits_for_fit(spec) ? std::vector<std::string>{"optimizations.fit is not answered"}
                                     : std::vector<std::string>());
  Compiled c;
  c.spec = spec;
  c.threads = options.threads;
  c.recompute = recompute;
  Dump dump(options.dump_dir);
  auto after = [&](const std::string& stage) {
    demand(stage, ir::verify(c.graph));
    dump.stage(stage, to_text(c.graph));
  };

  diag::Diagnostics diagnostics;
  models::check_freeze(c.spec, diagnostics);
  models::check_adapter(c.spec, diagnostics);
  demand("spec", diagnostics.has_errors() ? std::vector{diagnostics.render()} : std::vector<std::string>());

  // spec -> graph
  const std::optional<models::Generation> generation =
      options.generation ? options.generation : generation_of_replies(spec);
  models::Model model = models::declare_model(c.graph, c.spec, generation, precision_of(spec).activations);
  passes::RecomputeChoice recompute_in_loops = c.recompute;
  recompute_in_loops.layers = spec::iterations_of(spec, c.recompute.layers);
  models::build_micro_step(model, recompute_in_loops.layers);
  models::build_evaluate(model);
  if (model.graph.results.logits != ir::kNoValue) models::build_generate(model);
  if (generation) {
    models::build_prefill(model);
    models::build_decode(model);
  }
  if (spec::samples_replies(spec) || spec::has_reference(spec)) models::build_score(model);
  if (spec::encoder_of_replies(spec)) models::build_embed(model);
  if (model.graph.results.base_target_losses != ir::kNoValue) models::build_score_base(model);
  c.interface = model.interface;
  after("graph");
  passes::rotate_norms(c.graph);
  after("rotate-norms");

  // its gradients and its update
  const bool accumulates = spec::micro_batches_of_step(spec) > 1;
  // Ranks that keep parts of gradients alone add those of each micro-batch to them: passes/shard_gradients.
  const bool adds = accumulates && (spec.parallel.data == 1 || spec.parallel.zero < 2);
  const bool adds_whole = spec.optimizations.exact_accumulation;
  autodiff::differentiate(c.graph, c.graph.function("micro_step"), {adds && !adds_whole});
  if (adds && adds_whole)
    passes::sum_micro_batches(c.graph, c.graph.results.loss,
                              spec.optimizations.loss != spec::LossKernel::materialized);
  if (models::has_nf4_base(spec)) models::keep_as_nf4(c.graph);
  c.pack = models::pack_parameters(c.graph, spec.train.optimizer.name, pack_types_of(c));
  models::advance_randomness(model);
  optimizers::build_update(model, c.pack);
  if (spec.parallel.data > 1)
    passes::reduce_over_ranks(c.graph, c.pack, c.interface,
                              {spec.parallel.data, spec.train.gradient_accumulation_steps});
  if (spec.parallel.tensor > 1) passes::sum_partial_gradients(c.graph, spec.parallel.tensor);
  after("autodiff");

  // passes
  if (spec.train.optimizer.learning_rate.automatic) explain_found_rate(spec, c.decisions);
  if (spec::routes_tokens(spec)) explain_routing(spec, c.decisions);
  if (spec::warms_sequences_up(spec)) explain_sequence_warmup(spec, c.decisions);
  if (spec::reads_documents(spec)) explain_documents(target, c.decisions);
  if (const spec::Encoder* encoder = spec::encoder_of_replies(spec))
    explain_encoder(c.graph, *encoder, c.decisions);
  if (c.graph.inputs.page_table != ir::kNoValue) explain_pages(c.interface.cache, c.graph, c.decisions);
  passes::recompute(c.graph, recompute_in_loops, c.decisions);
  after("recompute");
  passes::precision(c.graph, c.pack, precision_of(spec), c.decisions);
  after("precision");
  if (models::has_nf4_base(spec)) {
    passes::dequantize(c.graph, c.decisions);
    after("dequantize");
  }
  if (spec.optimizations.precision == spec::Precision::fp8) {
    passes::fp8(c.graph, fp8_options(spec), c.decisions);
    after("fp8");
  }
  if (spec.optimizations.loss != spec::LossKernel::materialized)
    passes::chunk_head(c.graph, head_parts(spec), c.decisions);
  after("chunk-head");
  passes::layout(c.graph, c.decisions);
  after("layout");
  if (generation && !target.is_cpu()) {
    passes::rotate_in_decode(c.graph, c.decisions);
    after("rotate-in-decode");
  }
  if (fuses_matmuls(spec) && !options.generation) {
    c.matmuls = passes::add_matmul_tails(c.graph, matmul_fusion(spec, c.recompute, false), c.decisions);
    after("tails");
  }
  const passes::Kept kept = kept_values(c);
  passes::expand(c.graph, {.bias = !target.is_cpu()}, c.decisions);
  after("expand");
  if (!target.is_cpu()) {
    passes::move_biases(c.graph, kept.by_host, c.decisions);
    after("biases");
  }
  passes::remove_dead(c.graph, kept, c.decisions);
  after("dead-code");
  passes::fuse(c.graph, c.decisions);
  after("fuse");
  passes::remove_dead(c.graph, kept, c.decisions);
  after("dead-stores");
  if (!target.is_cpu() && spec.optimizations.attention != spec::AttentionKernel::cudnn &&
      !spec::attention_tiles(spec).ask_for_pair()) {
    passes::sum_in_attention(c.graph, target.chip(), c.decisions);
    after("sums");
  }
  if (fuses_matmuls(spec)) {
    if (options.generation)
      passes::fuse_matmuls(c.graph, matmul_fusion(spec, c.recompute, true), kept.by_host, c.decisions);
    else
      choose_matmuls(c, kept.by_host);
    after("matmuls");
  }
  passes::in_place(c.graph, c.decisions);
  after("in-place");
  if (spec.optimizations.offload.activations) {
    passes::offload_activations(c.graph, c.decisions);
    after("offload");
  }
  if (c.pack.sharing_ranks > 1) explain_shared_update(c.graph, c.pack, c.decisions);
  if (spec.parallel.tensor > 1) explain_shared_layers(spec, c.decisions);
  // Together with sums within layers, which involve other ranks, NCCL's kernels could deadlock.
  const bool may_overlap = spec.parallel.data > 1 && spec.parallel.tensor == 1 && c.pack.sharing_ranks == 1;
  if (may_overlap && !target.is_cpu() && !accumulates && overlaps_sums(c, c.decisions)) {
    passes::overlap_reduction(c.graph, c.pack, c.decisions);
    after("overlap");
  }
  if ((c.pack.shards_weights || spec.optimizations.offload.weights > 0) && !target.is_cpu()) {
    passes::fetch_ahead(c.graph, c.decisions);
    after("fetch-ahead");
  }
  if (c.pack.shards_gradients) {
    passes::shard_gradients(c.graph, c.pack, {.accumulates = accumulates, .beside = !target.is_cpu()},
                            c.decisions);
    after("shard-gradients");
  }

  // kernels and calls, then memory
  require_countable(c.graph);
  c.program = build_program(c, target, options);
  demand("program", ir::verify(c.graph));  // with the scratch memory that kernels ask for
  demand("program", program::verify(c.graph, c.program));
  dump.stage("program", to_text(c.graph, c.program));
  explain_exchange(c, c.decisions);
  c.plan = plan::roomy_plan(c.graph, touched_beside(c), most_with_room(target, given_memory(spec, options)),
                            moments_kept(c), exchange_bytes(c));
  demand("plan", plan::verify(c.graph, c.plan));
  dump.stage("plan", to_text(c.graph, c.plan));
  return c;
}

Compiled compile(const spec::Spec& spec, const CompileOptions& options) {
  if (spec.optimizations.recompute.mode == spec::Recompute::Mode::automatic)
    return compile_to_fit(spec, options);
  return compile(spec, recompute_choice(spec), options);
}

}  // namespace hydrac::driver
