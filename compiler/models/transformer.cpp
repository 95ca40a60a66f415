#include "models/transformer.h"

#include "ir/body_builder.h"
#include "models/interface.h"
#include "models/layers.h"
#include "models/pairs.h"

namespace hydrac::models {

namespace {

using ir::DType;
using ir::ValueId;

ir::Function& add_function(Model& model, const std::string& name) {
  model.graph.functions.push_back({name, {}});
  return model.graph.functions.back();
}

bool is_language_model(const spec::Spec& spec) {
  return spec.model.input == spec::Input::tokens && spec.model.head == spec::Head::language_model;
}

// Of one token, [1,V of a rank] of each rank -> [1,V]; into the value, if there is one.
Use whole_logits(ops::RegionBuilder& b, const Build& build, Use part, ValueId into) {
  const ir::Shape shape = {{1, "1"}, {vocab_rows(build.model.spec), "Vocabulary"}};
  const Use whole = into == ir::kNoValue ? b.exact(b.fresh("whole_logits", shape)) : build.fixed(into);
  b.emit_node(ir::Op::all_gather, {part}, {whole}, {{"ranks", build.tensor_ranks()}, {"tensor", true}});
  return whole;
}

// Of one token a sequence [B,C], or of all [B,T,C], into `logits`.
void add_logits(ops::RegionBuilder& b, const Build& build, Use hidden, ValueId into) {
  b.enter("head", "sample.max_new_tokens");
  const double softcap = build.model.spec.model.logit_softcap;
  const bool has_parts = build.tensor_ranks() > 1;
  Use logits = head(b, build, hidden, softcap == 0 && !has_parts ? build.fixed(into) : Use{});
  if (has_parts) logits = whole_logits(b, build, b.exact(logits), softcap == 0 ? into : ir::kNoValue);
  if (softcap == 0) return;
  b.enter("head", "model.logit_softcap");
  b.into(build.fixed(into));
  ops::softcap(b, logits, softcap, "capped_logits");
}

void build_loss(Model& model, const std::string& name, Phase phase, ValueId loss, int cut = 0) {
  const spec::Spec& spec = model.spec;
  const bool training = phase == Phase::train;
  ir::Function& function = add_function(model, name);
  const Build build{model, {spec.train.micro_batch_size, "B"}, sequence_tokens(spec), phase};
  const Use hidden = hidden_states(build, function, cut).last;
  ops::RegionBuilder b(model.graph, add_region(function, "head", 0));
  const Use predictions = head(b, build, hidden);
  const Use rows = loss_rows(b, build, predictions, training ? spec.train.label_smoothing : 0);
  if (spec::learns_preferences(spec)) return pair_loss(b, build, rows, loss);
  const Use scale = training ? build.fixed(model.graph.state.loss_scale) : Use{};
  const Use weights = training ? build.fixed(model.graph.inputs.target_weights) : Use{};
  ops::mean_loss(b, rows, build.fixed(model.graph.inputs.inv_count), build.fixed(loss), training, scale,
                 weights);
  if (training || model.graph.results.eval_hits == ir::kNoValue) return;
  b.enter("accuracy", "model.head");
  ops::hits(b, predictions, build.fixed(model.graph.inputs.targets), spec.model.num_labels,
            build.fixed(model.graph.results.eval_hits));
}

// The losses of a batch's targets, one by one, without dropout and smoothing.
Hidden score(const Build& build, ir::Function& function, ValueId losses) {
  const Hidden hidden = hidden_states(build, function);
  ops::RegionBuilder b(build.model.graph, add_region(function, "head", 0));
  const Use predictions = head(b, build, hidden.last);
  b.into(build.fixed(losses));
  loss_rows(b, build, predictions, 0);
  return hidden;
}

}  // namespace

Model declare_model(ir::Graph& graph, const spec::Spec& spec, const std::optional<Generation>& cache,
                    DType storage) {
  Parameters parameters = declare_parameters(graph, spec);
  Model model{spec, graph, parameters, declare_interface(graph, spec)};
  if (cache)
    declare_cache(model, *cache, storage);
  else if (is_language_model(spec))
    declare_generate(model);
  if (spec::learns_preferences(spec)) declare_pairs(model);
  if (spec::samples_replies(spec)) declare_objective(model, cache ? cache->text_rows : 1, storage);
  return model;
}

void build_micro_step(Model& model, int cut) {
  build_loss(model, "micro_step", Phase::train, model.graph.results.loss, cut);
}
void build_evaluate(Model& model) {
  build_loss(model, "evaluate", Phase::evaluate, model.graph.results.eval_loss);
}

void advance_randomness(Model& model) {
  ir::Function& function = model.graph.function("micro_step");
  // Below a loop of layers nothing may train; within it, each iteration would advance it.
  if (function.regions.back().layers > 0) add_region(function, "randomness", 0);
  ops::RegionBuilder b(model.graph, function.regions.back());
  b.enter("state", "train.seed");
  const Use step{model.graph.state.rng_step, {}};
  const ir::Node node{.inputs = {step}, .outputs = {step}};
  ir::BodyBuilder k(model.graph, node, {});
  k.store_row(0, k.scalar(0) + k.constant(1, ir::ExprType::u32));
  b.emit_body(node, "advance_randomness", k.take(), "rng_step += 1");
}

void build_generate(Model& model) {
  ir::Function& function = add_function(model, "generate");
  const Build build{model, {1, "1"}, sequence_tokens(model.spec), Phase::generate};
  const Use hidden = hidden_states(build, function).last;
  ops::RegionBuilder b(model.graph, add_region(function, "head", 0));
  b.enter("head", "sample.max_new_tokens");
  const Use token = ops::select_token(b, hidden, build.fixed(model.graph.inputs.position), "last_hidden");
  add_logits(b, build, token, model.graph.results.logits);
}

void build_prefill(Model& model) {
  const ir::InputPorts& inputs = model.graph.inputs;
  const ir::Shape& prompts = model.graph.value(inputs.prompts).shape;
  ir::Function& function = add_function(model, "prefill");
  const Build build{model, prompts[0], prompts[1], Phase::prefill};
  const Use hidden = hidden_states(build, function).last;
  ops::RegionBuilder b(model.graph, add_region(function, "head", 0));
  b.enter("head", "sample.max_new_tokens");
  const Use token = ops::select_token(b, hidden, build.fixed(inputs.prompt_ends), "last_hidden");
  add_logits(b, build, token, model.graph.results.prompt_logits);
}

void build_decode(Model& model) {
  const ir::InputPorts& inputs = model.graph.inputs;
  const ir::ResultPorts& results = model.graph.results;
  const ir::Shape& tokens = model.graph.value(inputs.next_tokens).shape;
  ir::Function& function = add_function(model, "decode");
  const Build build{model, tokens[0], tokens[1], Phase::decode};
  const Use hidden = hidden_states(build, function).last;
  ops::RegionBuilder b(model.graph, add_region(function, "head", 0));
  add_logits(b, build, hidden, results.next_logits);
  if (results.top_values == ir::kNoValue) return;
  b.enter("head", "sample.temperature");
  ops::top_logits(b, build.fixed(results.next_logits), build.fixed(inputs.inverse_temperature),
                  build.fixed(inputs.vocabulary), build.fixed(inputs.uniforms),
                  {build.fixed(results.top_values), build.fixed(results.top_ids),
                   build.fixed(results.top_sums), build.fixed(results.drawn)});
}

void build_score(Model& model) {
  const spec::Spec& spec = model.spec;
  ir::Function& function = add_function(model, "score");
  const Build build{model, {spec.train.micro_batch_size, "B"}, sequence_tokens(spec), Phase::evaluate};
  if (spec::learns_preferences(spec)) {
    const Use last = hidden_states(build, function).last;
    ops::RegionBuilder b(model.graph, add_region(function, "head", 0));
    return score_pairs(b, build, loss_rows(b, build, head(b, build, last), 0));
  }
  const Hidden hidden = score(build, function, model.graph.results.target_losses);
  if (spec::encoder_of_replies(spec)) return;
  const int64_t layer = spec.objective.embed_layer;
  const bool is_last = layer == spec.model.num_hidden_layers;
  ops::RegionBuilder b(model.graph, add_region(function, "distances", 0));
  add_distances(b, model, build.fixed(model.graph.inputs.segments),
                is_last ? hidden.last : build.fixed(hidden.stream, static_cast<int>(layer)));
}

void build_score_base(Model& model) {
  ir::Function& function = add_function(model, "score_base");
  Build build{model, {model.spec.train.micro_batch_size, "B"}, sequence_tokens(model.spec), Phase::evaluate};
  build.adapted = false;
  score(build, function, model.graph.results.base_target_losses);
}

}  // namespace hydrac::models
