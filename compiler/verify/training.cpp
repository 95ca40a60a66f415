#include "verify/training.h"

#include <fmt/format.h>

#include "runtime/error.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run_checkpoint.h"

namespace hydrac::verify {

namespace {

// Every trained parameter's tensors, or with the prefix "d_" their gradients', or the frozen ones'.
Tensors read_all(targets::Executable& program, const std::string& prefix, bool frozen = false) {
  Tensors tensors;
  const ir::Graph& graph = program.compiled().graph;
  for (const ir::Value& value : graph.values) {
    if (!value.parameter || value.trains() == frozen) continue;
    for (int slot = 0; slot < value.slots; ++slot)
      tensors[value.name].push_back(read_unpadded(program, graph.find(prefix + value.name), value, slot));
  }
  return tensors;
}

void divide(Tensors& tensors, float scale) {
  for (auto& [name, slots] : tensors) {
    for (std::vector<float>& slot : slots) {
      for (float& x : slot) x /= scale;  // a power of two: exact
    }
  }
}

}  // namespace

runtime::StepResult take_step(runtime::StepProgram& program, const std::vector<runtime::Batch>& micro_batches,
                              const std::function<void()>& before_update) {
  const runtime::Counters counters = program.counters();
  while (true) {
    for (const runtime::Batch& batch : micro_batches) program.micro_step(batch, inverse_count(micro_batches));
    before_update();
    program.update();
    const runtime::StepResult result = program.finish_step();
    if (!result.skipped) return result;
    if (!result.loss_scale || *result.loss_scale <= 1) {
      throw runtime::RunError(fmt::format("step {} overflows whatever the loss is scaled by", counters.step));
    }
    program.set_counters(counters);
  }
}

void initialize(targets::Executable& program) {
  program.steps().initialize();
  const spec::Spec& spec = program.compiled().spec;
  if (spec::begins_with_weights(spec)) runtime::WeightFiles(spec.model.weights).fill(program.steps());
  if (spec::begins_with_adapter(spec)) runtime::load_adapter(program.steps(), spec.adapter.weights);
}

Training train(targets::Executable& program, const Batches& batches) {
  initialize(program);
  Training training;
  training.frozen_before = read_all(program, "", true);
  for (const auto& step : batches) {
    const bool is_first = training.steps.empty();
    training.steps.push_back(take_step(program.steps(), step, [&] {
      if (is_first) training.gradients = read_all(program, "d_");
    }));
  }
  if (const std::optional<float> scale = training.steps[0].loss_scale) divide(training.gradients, *scale);
  training.parameters = read_all(program, "");
  for (const ir::Value& value : program.compiled().graph.values)
    if (value.trains()) training.columns[value.name] = value.shape.back().size;
  training.frozen = read_all(program, "", true);
  training.evaluation =
      program.steps().evaluate(batches.at(0).at(0)) * static_cast<double>(inverse_count(batches[0]));
  return training;
}

}  // namespace hydrac::verify
