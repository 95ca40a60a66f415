#include "emit/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>

#include "codegen/number_text.h"
#include "emit/layout_text.h"
#include "emit/sizes.h"
#include "emit/split_layout.h"
#include "models/adapter.h"
#include "models/pack.h"
#include "models/parameters.h"
#include "optimizers/loss_scale.h"
#include "targets/executable/checkpoint_tensors.h"
#include "targets/executable/program_layout.h"

namespace hydrac::emit {

using codegen::number_text;

void LayoutText::place(const std::string& member, ir::ValueId id) {
  if (id == ir::kNoValue) return;
  const bool scalar = element_count(value(id).shape) == 1;
  out_.line(fmt::format("layout.{} = place({}{});", member, tensor(id),
                        scalar ? "" : ", " + elements_text(dimensions_, value(id).shape)));
}

void LayoutText::inputs() {
  const models::Interface& io = compiled_.interface;
  place("inputs.tokens", io.tokens);
  place("inputs.features", io.features);
  place(value(io.targets).dtype == ir::DType::i32 ? "inputs.targets" : "inputs.float_targets", io.targets);
  if (const ir::ValueId order = compiled_.graph.find("token_order"); order != ir::kNoValue) {
    place("inputs.token_order", order);
    out_.line("layout.inputs.token_ids = V;");
  }
  place("inputs.own_tokens", io.own_tokens);
  place("inputs.own_prompt", io.own_prompt);
  if (compiled_.spec.parallel.tensor > 1) {
    out_.line(fmt::format("layout.inputs.own_ids = {};", models::own_vocab_rows(compiled_.spec)));
    if (compiled_.spec.model.head == spec::Head::language_model)
      out_.line("layout.inputs.own_targets = true;");
  }
  place("inputs.documents", io.documents);
  place("inputs.positions", io.positions);
  if (const ir::ValueId order = compiled_.graph.find("position_order"); order != ir::kNoValue) {
    place("inputs.position_order", order);
    const ir::Dim positions = value(compiled_.graph.find("position_embedding")).shape[0];
    out_.line(fmt::format("layout.inputs.position_ids = {};", size_text(dimensions_, positions)));
  }
  place("inputs.inv_count", io.inv_count);
  place("inputs.prompt", io.prompt);
  place("inputs.position", io.position);
  out_.line("");
}

void LayoutText::state() {
  const models::Interface& io = compiled_.interface;
  place("state.step", compiled_.graph.find("step"));
  place("state.rng_step", io.rng_step);
  place("state.rng_seed", io.rng_seed);
  place("state.rank", compiled_.graph.find("rank"));
  place("state.own_classes", io.own_classes);
  place("state.own_seed", io.own_seed);
  place("state.first_row", io.first_row);
  if (io.loss_scale != ir::kNoValue) {
    place("state.loss_scale", io.loss_scale);
    out_.line(
        fmt::format("layout.state.initial_loss_scale = {};", number_text(optimizers::LossScaling{}.initial)));
  }
  if (const ir::ValueId digits = compiled_.graph.find("learning_rate.digits"); digits != ir::kNoValue) {
    place("state.rate_digits", digits);
    place("state.rate_unit", compiled_.graph.find("learning_rate.unit"));
    place("state.rate_trial", compiled_.graph.find("learning_rate.trial"));
    const auto rate = runtime::decimal_rate(compiled_.spec.train.optimizer.learning_rate);
    out_.line(fmt::format("layout.state.initial_rate = {{{}, {}}};", number_text(rate.digits),
                          number_text(rate.unit)));
  }
  out_.line("");
}

void LayoutText::results() {
  const optimizers::Metrics& m = compiled_.metrics;
  place("results.step_loss", m.step_loss);
  place("results.grad_norm", m.grad_norm);
  place("results.learning_rate", m.learning_rate);
  place("results.aux_loss", m.aux_loss);
  place("results.predictor_accuracy", m.predictor_accuracy);
  place("results.mean_depth", m.mean_depth);
  place("results.loss_scale", m.loss_scale);
  place("results.skipped", m.skipped);
  place("results.eval_loss", compiled_.interface.eval_loss);
  place("results.eval_hits", compiled_.interface.eval_hits);
  if (compiled_.interface.logits != ir::kNoValue) {
    place("results.logits", compiled_.interface.logits);
    out_.line("layout.results.vocab_size = kVocabSize;");
  }
  out_.line("");
}

// What an objective reads and writes: prompts, tokens and their keys and values; replies and their losses.
void LayoutText::replies() {
  const models::CacheInterface& cache = compiled_.interface.cache;
  const models::ObjectiveInterface& objective = compiled_.interface.objective;
  out_.line(fmt::format("layout.reply_micro_batches = {};", spec::sampled_micro_batches(compiled_.spec)));
  const ir::Shape& prompts = value(cache.prompts).shape;
  const bool finds_top = cache.top_values != ir::kNoValue;
  out_.line(fmt::format("layout.cache = {{{}, {}, {}{}}};",
                        size_text(dimensions_, value(cache.tokens).shape[0]),
                        size_text(dimensions_, prompts[0]), size_text(dimensions_, prompts[1]),
                        finds_top ? ", " + size_text(dimensions_, value(cache.top_values).shape[1]) : ""));
  place("inputs.target_weights", objective.weights);
  place("inputs.segments", objective.segments);
  place("inputs.text_tokens", objective.encoder.tokens);
  place("inputs.text_documents", objective.encoder.documents);
  place("inputs.text_positions", objective.encoder.positions);
  place("inputs.text_segments", objective.encoder.segments);
  place("inputs.prompts", cache.prompts);
  place("inputs.prompt_rows", cache.prompt_rows);
  place("inputs.prompt_ends", cache.prompt_ends);
  place("inputs.next_tokens", cache.tokens);
  place("inputs.next_positions", cache.positions);
  place("inputs.inverse_temperature", cache.inverse_temperature);
  place("inputs.vocabulary", cache.vocabulary);
  place("inputs.uniforms", cache.uniforms);
  place("results.loss", compiled_.interface.loss);
  place("results.prompt_logits", cache.prompt_logits);
  place("results.next_logits", cache.logits);
  place("results.top_values", cache.top_values);
  place("results.top_ids", cache.top_ids);
  place("results.top_sums", cache.top_sums);
  place("results.drawn", cache.drawn);
  out_.line("layout.results.vocab_size = kVocabSize;");
  place("results.target_losses", objective.losses);
  place("results.base_target_losses", objective.base_losses);
  place("results.reply_embeddings", objective.embeddings);
  place("results.reply_distance", objective.distance);
  place("results.reply_distances", objective.distances);
  out_.line("");
}

void LayoutText::rope() {
  const models::Interface& io = compiled_.interface;
  if (io.rope_cos == ir::kNoValue) return;
  const spec::Model& m = compiled_.spec.model;
  const spec::RopeScaling& s = m.rope_scaling;
  const std::string elements = elements_text(dimensions_, value(io.rope_cos).shape);
  out_.line("layout.rope.emplace();");
  out_.line(fmt::format("layout.rope->cos = place({}, {});", tensor(io.rope_cos), elements));
  out_.line(fmt::format("layout.rope->sin = place({}, {});", tensor(io.rope_sin), elements));
  out_.line("layout.rope->tokens = T;");
  out_.line("layout.rope->head_dim = D;");
  out_.line(fmt::format("layout.rope->theta = {};", number_text(m.rope_theta)));
  if (s.factor != 1) {
    out_.line(fmt::format("layout.rope->scaling = {{{}, {}, {}, {}}};", number_text(s.factor),
                          number_text(s.low_freq_factor), number_text(s.high_freq_factor),
                          s.original_max_position_embeddings));
  }
  out_.line("");
}

// 6 N, N trained weights of matmuls, and attention's; frozen ones have less.
void LayoutText::flop() {
  std::map<double, std::string, std::greater<>> weights;  // by the flop that each has
  for (const ir::Value& value : compiled_.graph.values) {
    const int times = value.parameter ? targets::times_multiplied(compiled_, value) : 0;
    if (times == 0) continue;
    std::string& sum = weights[times * value.parameter->flop * value.parameter->token_share];
    const std::string slots =
        value.slots == compiled_.spec.model.num_hidden_layers ? "L" : std::to_string(value.slots);
    sum += fmt::format("{}{}{}", sum.empty() ? "" : " + ", value.slots > 1 ? slots + " * " : "",
                       value.parameter->split ? std::to_string(element_count(models::whole_shape(value)))
                                              : elements_text(dimensions_, value.shape));
  }
  const int64_t passes = compiled_.spec.model.mor.recursions;
  std::string sum;
  for (const auto& [flop, elements] : weights)
    sum += fmt::format("{} * static_cast<double>({}) + ", number_text(flop), elements);
  const std::string more = passes > 1 ? fmt::format(" ({} passes through the mlp's)", passes)
                           : spec::routes_tokens(compiled_.spec) ? " and a token that it is multiplied with"
                                                                 : "";
  out_.line(fmt::format(
      "// For mfu: {} flop a weight of matmuls{}, and attention's over the keys that a query sees.",
      weights.size() == 1 || passes > 1 ? "6" : "2 to 6", more));
  out_.line(fmt::format("layout.flop_per_target = {}{};", sum,
                        number_text(static_cast<double>(compiled_.spec.parallel.tensor) *
                                    targets::attention_flop_per_target(compiled_))));
}

void LayoutText::exchange() {
  if (compiled_.plan.exchange_bytes == 0) return;
  out_.line(fmt::format("layout.exchange = {{hydrac::runtime::ExchangePlace::By::{}, kExchangeOffset,",
                        compiled_.spec.parallel.exchange == spec::Exchange::copies ? "copies" : "automatic"));
  out_.line("                   kExchangeBytes};");
}

std::string LayoutText::print() {
  out_.open("ProgramLayout program_layout() {");
  out_.line("const Memory m(nullptr);");
  out_.line("ProgramLayout layout;");
  out_.line("layout.arena_bytes = kArenaBytes;");
  out_.line("layout.persistent_bytes = kPersistentBytes;");
  if (compiled_.plan.host_bytes > 0) out_.line("layout.host_bytes = kHostBytes;");
  if (compiled_.plan.kept_bytes > 0) out_.line("layout.kept_bytes = kKeptBytes;");
  exchange();
  out_.line("layout.input_bytes = kInputBytes;");
  out_.line(
      fmt::format("layout.gradient_accumulation_steps = {};", spec::micro_batches_of_step(compiled_.spec)));
  out_.line("layout.context_length = T;");
  if (compiled_.spec.parallel.tensor > 1) {
    out_.line(fmt::format("layout.tensor_ranks = {};", compiled_.spec.parallel.tensor));
    if (compiled_.interface.first_row != ir::kNoValue) out_.line("layout.stream_rows = Tokens;");
    if (compiled_.spec.model.vocab_size > 0) out_.line("layout.vocabulary = kVocabSize;");
  }
  out_.line("");
  inputs();
  state();
  results();
  if (spec::has_objective(compiled_.spec)) replies();
  out_.line(fmt::format("layout.seed = {};", static_cast<uint32_t>(compiled_.spec.train.seed)));
  define_splits(out_, compiled_, dimensions_, tensors_);
  starts();
  rope();
  checkpoint();
  if (spec::encoder_of_replies(compiled_.spec)) text_encoder();
  optimizer_state();
  divided();
  gradients();
  const bool copies = std::ranges::any_of(compiled_.program.functions,
                                          [](const program::Function& f) { return f.name == "load"; });
  if (copies) out_.line("layout.working_copies = true;");
  if (compiled_.pack.shards_weights) out_.line("layout.gathers_weights = true;");
  flop();
  out_.line("// For messages: what each call reads and makes, and the key of the spec that it comes from.");
  // An #include begins its line.
  return out_.text() + "  layout.calls = CallTable(\n#include \"calls.inc\"\n  );\n  return layout;\n}\n";
}

std::string layout_source(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                          const Tensors& tensors) {
  return LayoutText(compiled, dimensions, tensors).print();
}

}  // namespace hydrac::emit
