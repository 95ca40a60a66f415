#include "verify/training.h"

#include <fmt/format.h>

#include "runtime/error.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run/run_checkpoint.h"
#include "verify/oracle_graph.h"

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

// Adds the choices of the last function that ran.
void add_choice(targets::Executable& program, const std::string& when, Choices& choices) {
  const ir::Graph& graph = program.compiled().graph;
  const ir::ValueId kept = kept_choice(graph);
  if (kept == ir::kNoValue) return;
  std::vector<int32_t>& all = choices[fmt::format("{}.{}", kReplayedChoice, when)];
  all.clear();
  for (int slot = 0; slot < graph.value(kept).slots; ++slot) {
    for (const float choice : program.read(kept, slot)) all.push_back(static_cast<int32_t>(choice));
  }
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
                              const std::function<void()>& before_update,
                              const std::function<void(size_t)>& after_micro_step) {
  const runtime::Counters counters = program.counters();
  while (true) {
    for (size_t m = 0; m < micro_batches.size(); ++m) {
      program.micro_step(micro_batches[m], inverse_count(micro_batches));
      after_micro_step(m);
    }
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
    const size_t number = training.steps.size();
    const auto before_update = [&] {
      if (number == 0) training.gradients = read_all(program, "d_");
    };
    training.steps.push_back(take_step(program.steps(), step, before_update, [&](size_t micro_batch) {
      add_choice(program, fmt::format("s{}.m{}", number, micro_batch), training.choices);
    }));
  }
  if (const std::optional<float> scale = training.steps[0].loss_scale) divide(training.gradients, *scale);
  training.parameters = read_all(program, "");
  for (const ir::Value& value : program.compiled().graph.values)
    if (value.trains()) training.columns[value.name] = value.shape.back().size;
  training.frozen = read_all(program, "", true);
  training.evaluation =
      program.steps().evaluate(batches.at(0).at(0)) * static_cast<double>(inverse_count(batches[0]));
  add_choice(program, "evaluation", training.choices);
  return training;
}

}  // namespace hydrac::verify
