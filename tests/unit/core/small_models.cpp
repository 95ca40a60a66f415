#include "small_models.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "autodiff/autodiff.h"
#include "spec/load.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::test {

namespace {

spec::Spec valid(std::optional<spec::Spec> spec, const diag::Diagnostics& diagnostics) {
  if (!spec) throw std::runtime_error(diagnostics.render());
  return std::move(*spec);
}

}  // namespace

spec::Spec small_spec(const std::string& model, const std::string& train, const std::string& targets,
                      const std::string& adapter) {
  const std::string data =
      targets.empty() ? "path: corpus.txt, tokenizer: char" : "path: windows.csv, target: " + targets;
  diag::Diagnostics diagnostics;
  return valid(
      spec::load_spec_text(
          "small.yaml",
          fmt::format("name: small\ntarget: cpu\nmodel: {{{}}}\ndata: {{{}}}\ntrain: {{max_steps: 100, {}}}\n"
                      "adapter: {{{}}}\n",
                      model, data, train, adapter),
          {}, diagnostics),
      diagnostics);
}

spec::Encoder small_encoder() {
  return {.folder = "nowhere",
          .hidden_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 3,
          .intermediate_size = 40,
          .vocab_size = 30,
          .max_position_embeddings = 17,
          .type_vocab_size = 2,
          .norm_eps = 1e-12,
          .max_tokens = 11};
}

spec::Spec shipped_spec(const std::string& name, std::vector<std::string> overrides) {
  diag::Diagnostics diagnostics;
  for (const char* cpu : {"target=cpu", "optimizations.precision=fp32", "optimizations.loss=materialized"})
    overrides.push_back(cpu);
  return valid(
      spec::load_spec(hydrac::test::source_dir() + "/specs/" + name + ".yaml", overrides, diagnostics),
      diagnostics);
}

SmallModel::SmallModel(spec::Spec given, const Stages& stages) : spec(std::move(given)) {
  model = std::make_unique<models::Model>(models::declare_model(graph, spec));
  models::build_micro_step(*model, stages.recompute.layers);
  if (stages.all_functions) {
    models::build_evaluate(*model);
    if (spec::samples_replies(spec) || spec::has_reference(spec)) models::build_score(*model);
    if (spec::encoder_of_replies(spec)) models::build_embed(*model);
    if (model->graph.results.base_target_losses != ir::kNoValue) models::build_score_base(*model);
    if (model->graph.inputs.prompt != ir::kNoValue) models::build_generate(*model);
  }
  if (stages.rotate_norms) passes::rotate_norms(graph);
  autodiff::differentiate(graph, graph.function("micro_step"), {stages.accumulate});
  models::advance_randomness(*model);
  pack =
      models::pack_parameters(graph, spec.train.optimizer.name, models::pack_types(spec, stages.activations));
  if (stages.all_functions) optimizers::build_update(*model, pack, stages.loss_scaling);
  passes::recompute(graph, stages.recompute, log);
  if (stages.head_parts) passes::chunk_head(graph, *stages.head_parts, log);
  passes::layout(graph, log);
  const passes::Kept kept{{}, passes::statistics(graph)};
  passes::expand(graph, {.bias = stages.matmul_biases || stages.move_biases}, log);
  if (stages.move_biases) passes::move_biases(graph, {model->graph.results.logits}, log);
  if (stages.fuse) {
    passes::remove_dead(graph, kept, log);
    passes::fuse(graph, log);
    passes::remove_dead(graph, kept, log);
  }
  if (stages.in_place) passes::in_place(graph, log);
}

namespace {

std::vector<double> normals(std::mt19937& random, int64_t count, double deviation, double mean = 0) {
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<double> values(count);
  for (double& value : values) value = normal(random);
  return values;
}

std::vector<double> integers(std::mt19937& random, int64_t count, int64_t below) {
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(random() % below);
  return values;
}

}  // namespace

void SmallModel::fill(Interpreter& interpreter, unsigned seed) const {
  std::mt19937 random(seed);
  const models::Interface& io = model->interface;
  const ir::InputPorts& inputs = graph.inputs;
  const auto count = [&](ir::ValueId id) { return element_count(graph.value(id).shape); };
  for (ir::ValueId id : parameters()) {
    const bool is_norm = graph.value(id).parameter->init.kind == ir::Init::Kind::ones;
    for (int slot = 0; slot < graph.value(id).slots; ++slot) {
      interpreter.write({id, {false, slot}}, normals(random, count(id), 0.3, is_norm ? 1 : 0));
    }
  }
  const bool regression = spec.model.head == spec::Head::regression;
  const int64_t classes =
      spec.model.head == spec::Head::classification ? spec.model.num_labels : spec.model.vocab_size;
  if (inputs.tokens != ir::kNoValue)
    interpreter.write({inputs.tokens, {}}, integers(random, count(inputs.tokens), spec.model.vocab_size));
  if (inputs.documents != ir::kNoValue) {
    std::vector<double> documents, positions;
    for (int64_t i = 0; i < count(inputs.tokens); ++i) {  // of 3 tokens, the last one cut off
      const int64_t length = spec.train.sequence_len, token = i % length, begin = token / 3 * 3;
      documents.push_back(static_cast<double>(begin));
      documents.push_back(static_cast<double>(std::min(begin + 3, length)));
      positions.push_back(static_cast<double>(token - begin));
    }
    interpreter.write({inputs.documents, {}}, documents);
    if (inputs.positions != ir::kNoValue) interpreter.write({inputs.positions, {}}, positions);
  }
  if (inputs.features != ir::kNoValue)
    interpreter.write({inputs.features, {}}, normals(random, count(inputs.features), 1));
  std::vector<double> targets = regression ? normals(random, count(inputs.any_targets()), 1)
                                           : integers(random, count(inputs.any_targets()), classes);
  for (size_t i = 1; i < targets.size(); i += 4)
    targets[i] = regression ? std::nan("") : static_cast<double>(ops::kIgnoredTarget);
  interpreter.write({inputs.any_targets(), {}}, targets);
  interpreter.write({inputs.inv_count, {}}, {1.0 / static_cast<double>(targets.size())});
  if (inputs.target_weights != ir::kNoValue) {
    interpreter.write({inputs.target_weights, {}}, normals(random, count(inputs.target_weights), 1));
    const bool encodes = inputs.segments == ir::kNoValue;
    const ir::ValueId of_tokens = encodes ? inputs.text_segments : inputs.segments,
                      embeddings = graph.results.reply_embeddings;
    std::vector<double> segments = integers(random, count(of_tokens), count(graph.results.reply_distances));
    for (size_t i = 0; i < segments.size(); i += 3) segments[i] = -1;
    interpreter.write({of_tokens, {}}, segments);
    if (encodes) fill_texts(interpreter, random);
    interpreter.write({embeddings, {}}, normals(random, count(embeddings), 1));
  }
  if (spec::learns_preferences(spec)) {
    std::vector<double> segments =
        integers(random, count(inputs.segments), 2 * spec::pairs_of_sequence(spec));
    for (size_t i = 0; i < segments.size(); i += 5) segments[i] = -1;
    interpreter.write({inputs.segments, {}}, segments);
    for (const ir::ValueId reference : {inputs.chosen_reference, inputs.rejected_reference})
      if (reference != ir::kNoValue)
        interpreter.write({reference, {}}, normals(random, count(reference), 1, -20));
  }
  if (graph.state.loss_scale != ir::kNoValue)
    interpreter.write({graph.state.loss_scale, {}}, {optimizers::LossScaling{}.initial});
  interpreter.write({graph.state.rng_seed, {}}, {77});
  interpreter.write({graph.state.rng_step, {}}, {5});
  if (io.rope_cos != ir::kNoValue) {
    const std::vector<double> angles = normals(random, count(io.rope_cos), 2);
    std::vector<double> cosines, sines;
    for (double angle : angles) cosines.push_back(std::cos(angle)), sines.push_back(std::sin(angle));
    interpreter.write({io.rope_cos, {}}, cosines);
    interpreter.write({io.rope_sin, {}}, sines);
  }
  if (inputs.prompt != ir::kNoValue) {
    interpreter.write({inputs.prompt, {}}, integers(random, count(inputs.prompt), spec.model.vocab_size));
    interpreter.write({inputs.position, {}}, {static_cast<double>(count(inputs.prompt) / 2)});
  }
}

// Of 4 tokens each, the last one of a row cut off.
void SmallModel::fill_texts(Interpreter& interpreter, std::mt19937& random) const {
  const ir::InputPorts& inputs = graph.inputs;
  const ir::ValueId words = model->interface.objective.encoder.word;
  const ir::Shape& shape = graph.value(inputs.text_tokens).shape;
  const int64_t count = element_count(shape), length = shape[1].size;
  interpreter.write({inputs.text_tokens, {}}, integers(random, count, graph.value(words).shape[0].size));
  std::vector<double> documents, positions;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t token = i % length, begin = token / 4 * 4;
    documents.push_back(static_cast<double>(begin));
    documents.push_back(static_cast<double>(std::min(begin + 4, length)));
    positions.push_back(static_cast<double>(token - begin));
  }
  interpreter.write({inputs.text_documents, {}}, documents);
  interpreter.write({inputs.text_positions, {}}, positions);
}

std::vector<ir::ValueId> SmallModel::parameters() const {
  std::vector<ir::ValueId> ids;
  for (const ir::Value& value : graph.values) {
    if (value.parameter) ids.push_back(value.id);
  }
  return ids;
}

ir::ValueId SmallModel::gradient_of(ir::ValueId parameter) const {
  return graph.find("d_" + graph.value(parameter).name);
}

const ir::Node& SmallModel::fused_node(const std::string& function, const std::string& region,
                                       const std::string& part) const {
  for (const ir::Region& candidate : graph.function(function).regions) {
    if (candidate.name != region) continue;
    for (const ir::Node& node : candidate.nodes) {
      if (node.op == ir::Op::fused &&
          ("+" + std::get<std::string>(node.attributes.at("name")) + "+").find("+" + part + "+") !=
              std::string::npos)
        return node;
    }
  }
  throw std::logic_error(fmt::format("no kernel in {}.{} does {}", function, region, part));
}

}  // namespace hydrac::test
