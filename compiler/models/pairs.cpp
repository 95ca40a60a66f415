#include "models/pairs.h"

#include "models/blocks.h"
#include "models/interface.h"

namespace hydrac::models {

namespace {

using ir::DType;
using ir::Role;

ir::Dim pairs_of(const spec::Spec& spec) {
  return {spec::pairs_of_sequence(spec), "Pairs"};
}

void log_step(ops::RegionBuilder& b, const Build& build, const ops::PairSums& sums,
              const ops::PreferenceRows& rows) {
  const runtime::MetricText margins{"rewards/margins", "margin", 3, 3, "objective"};
  const auto plain = [](const std::string& name) {
    return runtime::MetricText{.name = name, .group = "objective"};
  };
  loss_statistic(b, build, rows.chosen_rewards, "chosen_rewards", plain("rewards/chosen"));
  loss_statistic(b, build, rows.rejected_rewards, "rejected_rewards", plain("rewards/rejected"));
  loss_statistic(b, build, rows.margins, "reward_margins", margins);
  loss_statistic(b, build, rows.hits, "reward_accuracies", plain("rewards/accuracies"));
  loss_statistic(b, build, sums.chosen, "chosen_logps", plain("logps/chosen"));
  loss_statistic(b, build, sums.rejected, "rejected_logps", plain("logps/rejected"));
}

}  // namespace

void declare_pairs(Model& model) {
  ir::Graph& graph = model.graph;
  const spec::Spec& spec = model.spec;
  const ir::Dim B{spec.train.micro_batch_size, "B"};
  const auto declare = [&](const std::string& name, ir::Shape shape, DType dtype, Role role) {
    ir::Value value;
    value.name = name;
    value.shape = std::move(shape);
    value.dtype = dtype;
    value.role = role;
    return graph.add(std::move(value));
  };
  const ir::Shape pairs = {B, pairs_of(spec)};
  graph.inputs.segments = declare("segments", {B, sequence_tokens(spec)}, DType::i32, Role::input);
  graph.results.eval_hits = declare("eval_hits", {}, DType::f32, Role::state);
  if (!spec::has_reference(spec)) return;
  graph.inputs.chosen_reference = declare("chosen_reference", pairs, DType::f32, Role::input);
  graph.inputs.rejected_reference = declare("rejected_reference", pairs, DType::f32, Role::input);
  graph.results.chosen_score = declare("chosen_score", pairs, DType::f32, Role::state);
  graph.results.rejected_score = declare("rejected_score", pairs, DType::f32, Role::state);
}

void score_pairs(ops::RegionBuilder& b, const Build& build, Use losses) {
  const ir::Graph& graph = build.model.graph;
  b.enter("objective", "objective.name");
  ops::pair_sums(b, losses, build.fixed(graph.inputs.segments), pairs_of(build.model.spec), "score",
                 build.fixed(graph.results.chosen_score), build.fixed(graph.results.rejected_score));
}

void pair_loss(ops::RegionBuilder& b, const Build& build, Use losses, ir::ValueId loss) {
  const ir::Graph& graph = build.model.graph;
  const ir::InputPorts& inputs = graph.inputs;
  const spec::Spec& spec = build.model.spec;
  b.enter("objective", "objective.name");
  const ops::PairSums sums = ops::pair_sums(b, losses, build.fixed(inputs.segments), pairs_of(spec), "pair");
  const ops::PreferenceRows rows = ops::preference_loss(
      b, sums, build.fixed(inputs.chosen_reference), build.fixed(inputs.rejected_reference),
      {std::string(to_string(spec.objective.name)), spec.objective.beta, spec.objective.gamma,
       build.trains() ? spec.objective.label_smoothing : 0},
      "pair");
  ops::mean_loss(b, rows.losses, build.fixed(inputs.inv_count), build.fixed(loss), build.trains(),
                 build.trains() ? build.fixed(graph.state.loss_scale) : Use{});
  if (!build.trains()) return ops::statistic(b, rows.hits, 1, build.fixed(graph.results.eval_hits), false);
  log_step(b, build, sums, rows);
}

}  // namespace hydrac::models
