#include "gpu_model.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "autodiff/autodiff.h"
#include "cuda/types.cuh"
#include "models/adapter.h"
#include "models/nf4.h"
#include "tests/unit/core/routing_values.h"

namespace hydrac::test {

GpuModel::GpuModel(spec::Spec given, ir::DType activations, passes::RecomputeChoice recompute,
                   const std::optional<passes::FusedMatmuls>& matmuls, const std::optional<passes::Fp8>& fp8,
                   const std::optional<passes::HeadParts>& head_parts)
    : spec(std::move(given)) {
  std::optional<models::Generation> generation;
  if (spec::samples_replies(spec)) generation = models::Generation{2, 1, spec.train.sequence_len};
  models::Model model = models::declare_model(graph, spec, generation, activations);
  models::build_micro_step(model);
  models::build_evaluate(model);
  if (generation) {
    models::build_prefill(model);
    models::build_decode(model);
    models::build_score(model);
  }
  if (spec::has_reference(spec)) models::build_score(model);
  if (spec::encoder_of_replies(spec)) models::build_embed(model);
  if (model.graph.results.base_target_losses != ir::kNoValue) models::build_score_base(model);
  if (model.graph.results.logits != ir::kNoValue) models::build_generate(model);
  passes::rotate_norms(graph);
  autodiff::differentiate(graph, graph.function("micro_step"), {spec.train.gradient_accumulation_steps > 1});
  if (models::has_nf4_base(spec)) models::keep_as_nf4(graph);
  pack = models::pack_parameters(graph, spec.train.optimizer.name, models::pack_types(spec, activations));
  models::advance_randomness(model);
  optimizers::build_update(model, pack);
  interface = model.interface;
  passes::Log log;
  passes::recompute(graph, recompute, log);
  passes::precision(graph, pack, {activations}, log);
  if (models::has_nf4_base(spec)) passes::dequantize(graph, log);
  if (fp8) passes::fp8(graph, *fp8, log);
  if (head_parts) passes::chunk_head(graph, *head_parts, log);
  passes::layout(graph, log);
  const std::vector<ir::ValueId> reported = graph.reported();
  const passes::Kept kept{{reported.begin(), reported.end()}, passes::statistics(graph)};
  if (matmuls) passes::add_matmul_tails(graph, *matmuls, log);
  passes::expand(graph, {.bias = true}, log);
  passes::move_biases(graph, kept.by_host, log);
  passes::remove_dead(graph, kept, log);
  passes::fuse(graph, log);
  passes::remove_dead(graph, kept, log);
  if (matmuls) {
    passes::fuse_matmuls(graph, *matmuls, kept.by_host, log);
    passes::gather_weight_gradients(graph, *matmuls, log);
  }
  passes::in_place(graph, log);
}

double rounded(ir::DType dtype, double x) {
  switch (dtype) {
    case ir::DType::f32:
      return static_cast<float>(x);
    case ir::DType::bf16:
      return round_to<bf16>(static_cast<float>(x));
    case ir::DType::f16:
      return round_to<f16>(static_cast<float>(x));
    default:
      return x;
  }
}

namespace {

bool is_integer(ir::DType dtype) {
  return dtype == ir::DType::i32 || dtype == ir::DType::u32;
}

// Tokens, targets, rope tables and scalars as the models of the other tests have them.
void take_inputs(const GpuModel& model, Interpreter& state) {
  const SmallModel plain(model.spec, {.all_functions = true});
  Interpreter inputs(plain.graph);
  plain.fill(inputs, 3);
  for (const ir::Value& value : model.graph.values) {
    if (value.view ||
        (value.role != ir::Role::input && value.role != ir::Role::constant && !is_integer(value.dtype)) ||
        routing_values(model.graph, value))
      continue;
    const ir::ValueId from = plain.graph.find(value.name);
    if (from == ir::kNoValue) continue;
    std::vector<double> numbers = inputs.read({from, {}});
    for (double& x : numbers) x = rounded(value.dtype, x);
    state.write({value.id, {}}, numbers);
  }
}

}  // namespace

void randomize(const GpuModel& model, Interpreter& state) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 1);
  for (const ir::Value& value : model.graph.values) {
    if (value.view) continue;
    const bool positive = value.name.starts_with("adam.") || value.name.ends_with(".rstd") ||
                          value.name == "grad_square" || value.name == "learning_rate" ||
                          value.name.ends_with(".scales");
    for (int slot = 0; slot < value.slots; ++slot) {
      std::vector<double> numbers(element_count(value.shape));
      if (const auto routing = routing_values(model.graph, value)) numbers = *routing;
      for (double& x : numbers) {
        if (is_integer(value.dtype)) continue;  // 0 where no input gives them
        x = value.dtype == ir::DType::u8
                ? static_cast<double>(random() % 256)
                : rounded(value.dtype, positive ? std::abs(normal(random)) + 0.1 : normal(random));
      }
      state.write({value.id, {false, slot}}, numbers);
    }
  }
  take_inputs(model, state);
  if (const ir::ValueId rank = model.graph.find("rank"); rank != ir::kNoValue) state.write({rank, {}}, {1});
}

}  // namespace hydrac::test
