#include "emit/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>

#include "codegen/number_text.h"
#include "emit/layout_text.h"
#include "emit/sizes.h"
#include "emit/split_layout.h"
#include "models/parameters.h"
#include "targets/executable/program_layout.h"

namespace hydrac::emit {

using codegen::number_text;

void LayoutText::set(std::string_view member, int64_t number, std::string_view text) {
  if (number != 0)
    out_.line(fmt::format("layout.{} = {};", member, text.empty() ? std::to_string(number) : text));
}

void LayoutText::place(std::string_view member, ir::ValueId id) {
  if (id == ir::kNoValue) return;
  const bool scalar = element_count(value(id).shape) == 1;
  out_.line(fmt::format("layout.{} = place({}{});", member, tensor(id),
                        scalar ? "" : ", " + elements_text(dimensions_, value(id).shape)));
}

void LayoutText::inputs() {
  const runtime::InputPlaces& inputs = layout_.inputs;
#define HYDRAC_INPUT(name) place("inputs." #name, compiled_.graph.inputs.name);
#include "runtime/program/ports.def"
  set("inputs.token_ids", inputs.token_ids, "V");
  if (inputs.position_order) {
    const ir::Dim positions = value(compiled_.graph.find("position_embedding")).shape[0];
    set("inputs.position_ids", inputs.position_ids, size_text(dimensions_, positions));
  }
  set("inputs.own_ids", inputs.own_ids);
  set("inputs.own_targets", inputs.own_targets, "true");
  out_.line("");
}

void LayoutText::state() {
  const runtime::StatePlaces& state = layout_.state;
#define HYDRAC_STATE(name) place("state." #name, compiled_.graph.state.name);
#include "runtime/program/ports.def"
  if (state.loss_scale)
    out_.line(
        fmt::format("layout.state.initial_loss_scale = {};", number_text(double{state.initial_loss_scale})));
  if (state.rate_digits)
    out_.line(fmt::format("layout.state.initial_rate = {{{}, {}}};", number_text(state.initial_rate.digits),
                          number_text(state.initial_rate.unit)));
  out_.line("");
}

void LayoutText::results() {
#define HYDRAC_RESULT(name) place("results." #name, compiled_.graph.results.name);
#include "runtime/program/ports.def"
  set("results.vocab_size", layout_.results.vocab_size, "kVocabSize");
  for (const auto& [text, id] : compiled_.graph.metrics) {
    const bool usual = text.importance == 0 && text.group == runtime::MetricText{}.group;
    out_.line(fmt::format("layout.metrics.push_back({{{{\"{}\", \"{}\", {}{}}}, place({})}});", text.name,
                          text.label, text.decimals,
                          usual ? "" : fmt::format(", {}, \"{}\"", text.importance, text.group), tensor(id)));
  }
  out_.line("");
}

// An objective samples replies with a cache.
void LayoutText::replies() {
  const runtime::CacheShape& cache = layout_.cache;
  if (cache.sequences == 0) return;
  const ir::Graph& graph = compiled_.graph;
  set("reply_micro_batches", layout_.reply_micro_batches);
  const ir::Shape& prompts = value(graph.inputs.prompts).shape;
  out_.line(fmt::format(
      "layout.cache = {{{}, {}, {}{}}};", size_text(dimensions_, value(graph.inputs.next_tokens).shape[0]),
      size_text(dimensions_, prompts[0]), size_text(dimensions_, prompts[1]),
      cache.top == 0 ? "" : ", " + size_text(dimensions_, value(graph.results.top_values).shape[1])));
  set("cache.pages", cache.pages);
  set("cache.page_tokens", cache.page_tokens);
  set("cache.pages_of_sequence", cache.pages_of_sequence);
  out_.line("");
}

void LayoutText::rope() {
  if (!layout_.rope) return;
  const runtime::RopeScaling& s = layout_.rope->scaling;
  out_.line("layout.rope.emplace();");
  place("rope->cos", compiled_.interface.rope_cos);
  place("rope->sin", compiled_.interface.rope_sin);
  set("rope->tokens", layout_.rope->tokens, "T");
  set("rope->head_dim", layout_.rope->head_dim,
      layout_.rope->head_dim == compiled_.spec.model.head_dim ? "D" : "");
  out_.line(fmt::format("layout.rope->theta = {};", number_text(layout_.rope->theta)));
  if (layout_.rope->local_theta > 0)
    out_.line(fmt::format("layout.rope->local_theta = {};", number_text(layout_.rope->local_theta)));
  if (layout_.rope->has_still) out_.line("layout.rope->has_still = true;");
  using Kind = runtime::RopeScaling::Kind;
  if (s.factor != 1 || s.kind == Kind::longrope) {
    std::string kind;
    const char* name = s.kind == Kind::yarn ? "yarn" : s.kind == Kind::linear ? "linear" : "longrope";
    if (s.kind != Kind::llama3)
      kind = fmt::format(", RopeScaling::Kind::{}, {}, {}, {}, {}", name, number_text(s.attention_factor),
                         number_text(s.beta_fast), number_text(s.beta_slow), s.truncate);
    if (s.kind == Kind::longrope) kind += fmt::format(", {{{}}}", fmt::join(s.pair_factors, ", "));
    out_.line(fmt::format("layout.rope->scaling = {{{}, {}, {}, {}{}}};", number_text(s.factor),
                          number_text(s.low_freq_factor), number_text(s.high_freq_factor),
                          s.original_max_position_embeddings, kind));
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
  const bool has_token_shares = spec::routes_tokens(compiled_.spec) || spec::has_experts(compiled_.spec);
  std::string sum;
  for (const auto& [flop, elements] : weights)
    sum += fmt::format("{} * static_cast<double>({}) + ", number_text(flop), elements);
  const std::string more = passes > 1         ? fmt::format(" ({} passes through the mlp's)", passes)
                           : has_token_shares ? " and a token that it is multiplied with"
                                              : "";
  out_.line(fmt::format(
      "// For mfu: {} flop a weight of matmuls{}, and attention's over the keys that a query sees.",
      weights.size() == 1 || passes > 1 ? "6" : "2 to 6", more));
  out_.line(fmt::format("layout.flop_per_target = {}{};", sum,
                        number_text(static_cast<double>(compiled_.spec.parallel.tensor) *
                                    targets::attention_flop_per_target(compiled_))));
}

void LayoutText::exchange() {
  if (layout_.exchange.bytes == 0) return;
  out_.line(fmt::format("layout.exchange = {{hydrac::runtime::ExchangePlace::By::{}, kExchangeOffset,",
                        layout_.exchange.by == runtime::ExchangePlace::By::copies ? "copies" : "automatic"));
  out_.line("                   kExchangeBytes};");
}

void LayoutText::memory() {
  set("arena_bytes", layout_.arena_bytes, "kArenaBytes");
  set("persistent_bytes", layout_.persistent_bytes, "kPersistentBytes");
  set("host_bytes", layout_.host_bytes, "kHostBytes");
  set("kept_bytes", layout_.kept_bytes, "kKeptBytes");
  exchange();
  set("input_bytes", layout_.input_bytes, "kInputBytes");
  set("gradient_accumulation_steps", layout_.gradient_accumulation_steps);
  set("context_length", layout_.context_length, "T");
  if (layout_.tensor_ranks > 1) {
    set("tensor_ranks", layout_.tensor_ranks);
    set("stream_rows", layout_.stream_rows, "Tokens");
    set("vocabulary", layout_.vocabulary, "kVocabSize");
  }
  out_.line("");
}

std::string LayoutText::print() {
  out_.open("ProgramLayout program_layout() {");
  out_.line("const Memory m(nullptr);");
  out_.line("ProgramLayout layout;");
  memory();
  inputs();
  state();
  results();
  replies();
  out_.line(fmt::format("layout.seed = {};", layout_.seed));
  define_splits(out_, compiled_, dimensions_, tensors_);
  starts();
  rope();
  checkpoint();
  text_encoder();
  optimizer_state();
  divided();
  gradients();
  set("working_copies", layout_.working_copies, "true");
  set("gathers_weights", layout_.gathers_weights, "true");
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
