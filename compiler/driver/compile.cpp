#include "driver/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "autodiff/autodiff.h"
#include "codegen/cpu_program.h"
#include "driver/dump.h"
#include "driver/fit_memory.h"
#include "targets/target.h"

namespace hydrac::driver {

namespace {

void demand(const std::string& stage, const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  throw std::logic_error(fmt::format("after {}:\n  {}", stage, fmt::join(problems, "\n  ")));
}

passes::RecomputeChoice recompute_choice(const spec::Spec& spec) {
  const spec::Recompute& r = spec.optimizations.recompute;
  if (r.mode == spec::Recompute::Mode::block) return {.block = true};
  return {r.norm, r.act, r.attn, r.mlp, false};
}

// `fused_linear` takes the smallest parts whose products are still near their best: the weight's gradient is
// read and written once a part. `chunked` gives four times the memory for a quarter of that traffic. On a cpu
// a part's logits stay in the caches.
passes::HeadParts head_parts(const spec::Spec& spec) {
  const bool cpu = targets::find(spec.target)->is_cpu();
  passes::HeadParts parts{(cpu ? 32LL : 512LL) << 20, cpu ? 256 : 1024};
  if (spec.optimizations.loss == spec::LossKernel::chunked) parts.logit_bytes *= 4;
  return parts;
}

// Values the host reads, which no pass may find dead.
std::set<ir::ValueId> host_values(const Compiled& c) {
  return {c.interface.loss, c.interface.eval_loss, c.interface.logits, c.metrics.step_loss,
          c.metrics.grad_norm};
}

}  // namespace

Compiled compile(const spec::Spec& spec, const passes::RecomputeChoice& recompute,
                 const CompileOptions& options) {
  Compiled c;
  c.spec = spec;
  c.threads = options.threads;
  c.recompute = recompute;
  Dump dump(options.dump_dir);
  auto after = [&](const std::string& stage) {
    demand(stage, ir::verify(c.graph));
    dump.stage(stage, to_text(c.graph));
  };

  // spec -> graph
  models::Model model = models::declare_model(c.graph, c.spec);
  c.interface = model.interface;
  c.pack = models::pack_parameters(c.graph);
  models::build_micro_step(model);
  models::build_evaluate(model);
  if (c.interface.logits != ir::kNoValue) models::build_generate(model);
  after("graph");

  // its gradients and its update
  autodiff::differentiate(c.graph, c.graph.function("micro_step"),
                          {spec.train.gradient_accumulation_steps > 1});
  models::pack_gradients(c.graph, c.pack);
  models::advance_randomness(model);
  c.metrics = optimizers::build_update(model, c.pack);
  after("autodiff");

  // passes
  passes::recompute(c.graph, c.recompute, c.decisions);
  after("recompute");
  if (spec.optimizations.loss != spec::LossKernel::materialized)
    passes::chunk_head(c.graph, head_parts(spec), c.decisions);
  after("chunk-head");
  passes::layout(c.graph, c.decisions);
  after("layout");
  passes::expand(c.graph, c.decisions);
  after("expand");
  passes::remove_dead(c.graph, host_values(c), c.decisions);
  after("dead-code");
  passes::fuse(c.graph, c.decisions);
  after("fuse");
  passes::remove_dead(c.graph, host_values(c), c.decisions);
  after("dead-stores");
  passes::in_place(c.graph, c.decisions);
  after("in-place");

  // kernels and calls, then memory
  c.program = codegen::build_cpu_program(c.graph, options.threads);
  demand("program", program::verify(c.graph, c.program));
  dump.stage("program", to_text(c.graph, c.program));
  c.plan = plan::make_plan(c.graph);
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
