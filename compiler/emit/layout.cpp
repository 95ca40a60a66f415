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
  const ir::InputPorts& inputs = compiled_.graph.inputs;
#define HYDRAC_INPUT(name) place("inputs." #name, inputs.name);
#include "runtime/program/ports.def"
  if (inputs.token_order != ir::kNoValue) out_.line("layout.inputs.token_ids = V;");
  if (inputs.position_order != ir::kNoValue) {
    const ir::Dim positions = value(compiled_.graph.find("position_embedding")).shape[0];
    out_.line(fmt::format("layout.inputs.position_ids = {};", size_text(dimensions_, positions)));
  }
  if (compiled_.spec.parallel.tensor > 1) {
    out_.line(fmt::format("layout.inputs.own_ids = {};", models::own_vocab_rows(compiled_.spec)));
    if (compiled_.spec.model.head == spec::Head::language_model)
      out_.line("layout.inputs.own_targets = true;");
  }
  out_.line("");
}

void LayoutText::state() {
  const ir::StatePorts& state = compiled_.graph.state;
#define HYDRAC_STATE(name) place("state." #name, state.name);
#include "runtime/program/ports.def"
  if (state.loss_scale != ir::kNoValue)
    out_.line(
        fmt::format("layout.state.initial_loss_scale = {};", number_text(optimizers::LossScaling{}.initial)));
  if (state.rate_digits != ir::kNoValue) {
    const auto rate = runtime::decimal_rate(compiled_.spec.train.optimizer.learning_rate);
    out_.line(fmt::format("layout.state.initial_rate = {{{}, {}}};", number_text(rate.digits),
                          number_text(rate.unit)));
  }
  out_.line("");
}

void LayoutText::results() {
  const ir::ResultPorts& results = compiled_.graph.results;
#define HYDRAC_RESULT(name) place("results." #name, results.name);
#include "runtime/program/ports.def"
  if (results.logits != ir::kNoValue || results.next_logits != ir::kNoValue)
    out_.line("layout.results.vocab_size = kVocabSize;");
  for (const auto& [text, id] : compiled_.graph.metrics)
    out_.line(fmt::format("layout.metrics.push_back({{{{\"{}\", \"{}\", {}}}, place({})}});", text.name,
                          text.label, text.decimals, tensor(id)));
  out_.line("");
}

// An objective samples replies with a cache.
void LayoutText::replies() {
  const ir::Graph& graph = compiled_.graph;
  out_.line(fmt::format("layout.reply_micro_batches = {};", spec::sampled_micro_batches(compiled_.spec)));
  const ir::Shape& prompts = value(graph.inputs.prompts).shape;
  const ir::ValueId top = graph.results.top_values;
  out_.line(fmt::format("layout.cache = {{{}, {}, {}{}}};",
                        size_text(dimensions_, value(graph.inputs.next_tokens).shape[0]),
                        size_text(dimensions_, prompts[0]), size_text(dimensions_, prompts[1]),
                        top == ir::kNoValue ? "" : ", " + size_text(dimensions_, value(top).shape[1])));
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
  const int64_t width = spec::rope_width(m);
  out_.line(fmt::format("layout.rope->head_dim = {};", width == m.head_dim ? "D" : std::to_string(width)));
  out_.line(fmt::format("layout.rope->theta = {};", number_text(m.rope_theta)));
  if (m.rope_local_theta > 0)
    out_.line(fmt::format("layout.rope->local_theta = {};", number_text(m.rope_local_theta)));
  if (m.no_rope_pattern > 0) out_.line("layout.rope->has_still = true;");
  if (s.factor != 1) {
    std::string kind;
    if (s.rope_type != spec::RopeType::llama3)
      kind = fmt::format(", RopeScaling::Kind::{}, {}, {}, {}, {}", spec::to_string(s.rope_type),
                         number_text(s.attention_factor), number_text(s.beta_fast), number_text(s.beta_slow),
                         s.truncate);
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
    if (compiled_.graph.state.first_row != ir::kNoValue) out_.line("layout.stream_rows = Tokens;");
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
