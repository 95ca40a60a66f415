#include "targets/executable/program_layout.h"

#include <algorithm>
#include <stdexcept>

#include "models/pack.h"
#include "models/parameters.h"
#include "ops/op.h"
#include "targets/executable/call_table.h"
#include "targets/executable/checkpoint_tensors.h"

namespace hydrac::targets {

namespace {

using runtime::ParameterStart;
using runtime::Place;

class LayoutMaker {
 public:
  explicit LayoutMaker(const driver::Compiled& compiled) : compiled_(compiled), graph_(compiled.graph) {}

  runtime::ProgramLayout make() const;

 private:
  // Absent where the value is.
  Place place(ir::ValueId id) const;
  Place place_of_any_type(ir::ValueId id, int slot) const;
  runtime::InputPlaces inputs() const;
  runtime::StatePlaces state() const;
  runtime::ResultPlaces results() const;
  std::vector<runtime::MetricPlace> metrics() const;
  runtime::CacheShape cache() const;
  runtime::TextShape texts() const;
  std::vector<ParameterStart> starts() const;
  runtime::RopeTables rope() const;
  runtime::ExchangePlace exchange() const;
  std::vector<runtime::GradientPlace> gradients() const;
  std::vector<runtime::SharedBytes> divided() const;
  double flop_per_target() const;

  const driver::Compiled& compiled_;
  const ir::Graph& graph_;
};

Place LayoutMaker::place(ir::ValueId id) const {
  if (id == ir::kNoValue) return {};
  if (size_of(graph_.value(id).dtype) != 4)
    throw std::logic_error(graph_.value(id).name + " is not of 4-byte elements");
  return place_of_any_type(id, 0);
}

Place LayoutMaker::place_of_any_type(ir::ValueId id, int slot) const {
  const ir::Value& value = graph_.value(id);
  if (resolved_view(graph_, id).strides != contiguous_strides(value.shape))
    throw std::logic_error(value.name + " is not dense");
  return {plan::address(graph_, compiled_.plan, {id, {false, slot}}, 0), element_count(value.shape)};
}

runtime::InputPlaces LayoutMaker::inputs() const {
  runtime::InputPlaces places;
#define HYDRAC_INPUT(name) places.name = place(graph_.inputs.name);
#include "runtime/program/ports.def"
  const spec::Spec& spec = compiled_.spec;
  if (places.token_order) places.token_ids = models::own_vocab_rows(spec);
  if (places.position_order) places.position_ids = spec.model.max_position_embeddings;
  if (spec.parallel.tensor > 1) {
    places.own_ids = models::own_vocab_rows(spec);
    places.own_targets = spec.model.head == spec::Head::language_model;
  }
  return places;
}

runtime::StatePlaces LayoutMaker::state() const {
  runtime::StatePlaces places;
#define HYDRAC_STATE(name) places.name = place(graph_.state.name);
#include "runtime/program/ports.def"
  if (places.loss_scale) places.initial_loss_scale = static_cast<float>(optimizers::LossScaling{}.initial);
  if (places.rate_digits)
    places.initial_rate = runtime::decimal_rate(compiled_.spec.train.optimizer.learning_rate);
  return places;
}

runtime::ResultPlaces LayoutMaker::results() const {
  runtime::ResultPlaces places;
#define HYDRAC_RESULT(name) places.name = place(graph_.results.name);
#include "runtime/program/ports.def"
  if (places.logits || places.next_logits) places.vocab_size = compiled_.spec.model.vocab_size;
  return places;
}

std::vector<runtime::MetricPlace> LayoutMaker::metrics() const {
  std::vector<runtime::MetricPlace> places;
  for (const ir::Metric& metric : graph_.metrics) places.push_back({metric.text, place(metric.value)});
  return places;
}

runtime::CacheShape LayoutMaker::cache() const {
  const models::CacheInterface& io = compiled_.interface.cache;
  if (io.keys == ir::kNoValue) return {};
  const ir::InputPorts& inputs = graph_.inputs;
  const ir::Shape& prompts = graph_.value(inputs.prompts).shape;
  const ir::ValueId found = graph_.results.top_values;
  const int64_t top = found == ir::kNoValue ? 0 : graph_.value(found).shape[1].size;
  runtime::CacheShape cache{graph_.value(inputs.next_tokens).shape[0].size, prompts[0].size, prompts[1].size,
                            top};
  if (inputs.page_table != ir::kNoValue) {
    const ir::Shape& keys = graph_.value(io.keys).shape;
    cache.pages = keys[0].size;
    cache.page_tokens = keys[2].size;
    cache.pages_of_sequence = graph_.value(inputs.page_table).shape[1].size;
  }
  return cache;
}

runtime::TextShape LayoutMaker::texts() const {
  const ir::ValueId tokens = graph_.inputs.text_tokens;
  if (tokens == ir::kNoValue) return {};
  const ir::Shape& shape = graph_.value(tokens).shape;
  return {shape[0].size, shape[1].size};
}

ParameterStart::Kind kind_of(ir::Init::Kind kind) {
  switch (kind) {
    case ir::Init::Kind::zeros:
      return ParameterStart::Kind::zeros;
    case ir::Init::Kind::ones:
      return ParameterStart::Kind::ones;
    case ir::Init::Kind::constant:
      return ParameterStart::Kind::constant;
    case ir::Init::Kind::normal:
      return ParameterStart::Kind::normal;
    case ir::Init::Kind::uniform:
      return ParameterStart::Kind::uniform;
  }
  throw std::logic_error("a start that no parameter has");
}

std::vector<ParameterStart> LayoutMaker::starts() const {
  std::vector<ParameterStart> starts;
  for (const ir::Value& value : graph_.values) {
    if (!value.parameter) continue;
    const int64_t row = element_count(value.shape) / value.shape[0].size;
    for (int slot = 0; slot < value.slots; ++slot) {
      if (value.parameter->nf4) {
        starts.push_back({{},
                          kind_of(value.parameter->init.kind),
                          value.parameter->init.number,
                          runtime::SafetensorsDtype::f32,
                          nf4_places(compiled_, value, slot)});
        continue;
      }
      if (value.parameter->split) {
        const ir::RowRange rows{0, models::checkpoint_rows(value)};
        starts.push_back({.kind = kind_of(value.parameter->init.kind),
                          .number = value.parameter->init.number,
                          .dtype = stored_type(value.dtype),
                          .pieces = pieces_of(compiled_, value, slot, rows)});
        continue;
      }
      Place start = place_of_any_type(value.id, slot);
      start.elements = models::checkpoint_rows(value) * row;  // the padding stays 0
      starts.push_back({start, kind_of(value.parameter->init.kind), value.parameter->init.number,
                        stored_type(value.dtype)});
    }
  }
  return starts;
}

// Dynamic scaling is in the base.
runtime::RopeScaling scaling_of(const spec::Spec& spec) {
  using spec::RopeType, runtime::RopeScaling;
  const spec::RopeScaling& s = spec.model.rope_scaling;
  const bool is_none = !spec::scales_rope(spec.model) || s.rope_type == RopeType::dynamic;
  RopeScaling scaling{is_none ? 1 : s.factor, s.low_freq_factor, s.high_freq_factor,
                      s.original_max_position_embeddings};
  if (is_none || s.rope_type == RopeType::llama3) return scaling;
  if (s.rope_type == RopeType::linear) {
    scaling.kind = RopeScaling::Kind::linear;
    return scaling;
  }
  scaling.attention_factor = s.attention_factor;
  scaling.beta_fast = s.beta_fast, scaling.beta_slow = s.beta_slow, scaling.truncate = s.truncate;
  scaling.kind = s.rope_type == RopeType::yarn ? RopeScaling::Kind::yarn : RopeScaling::Kind::longrope;
  scaling.pair_factors = spec::rope_pair_factors(spec);
  return scaling;
}

runtime::RopeTables LayoutMaker::rope() const {
  const spec::Model& m = compiled_.spec.model;
  return {place(compiled_.interface.rope_cos),
          place(compiled_.interface.rope_sin),
          compiled_.spec.train.sequence_len,
          spec::rope_width(m),
          spec::rope_base(compiled_.spec),
          scaling_of(compiled_.spec),
          m.rope_local_theta,
          m.no_rope_pattern > 0};
}

std::vector<runtime::GradientPlace> LayoutMaker::gradients() const {
  std::vector<runtime::GradientPlace> places;
  if (compiled_.pack.shards_gradients) return places;  // of which no rank has whole ones
  for (const models::ParameterGroup& group : compiled_.pack.groups)
    places.push_back({place_of_any_type(group.parameters, 0), place_of_any_type(group.gradients, 0),
                      stored_type(graph_.value(group.parameters).dtype),
                      stored_type(graph_.value(group.gradients).dtype)});
  return places;
}

std::vector<runtime::SharedBytes> LayoutMaker::divided() const {
  std::vector<runtime::SharedBytes> all;
  for (const models::ParameterGroup* group : divided_groups(compiled_.pack)) {
    const int64_t row = compiled_.pack.row * size_of(graph_.value(group->parameters).dtype);  // bytes
    const int64_t whole = place_of_any_type(group->parameters, 0).offset,
                  own = place_of_any_type(group->own_parameters, 0).offset;
    for (const models::Stretch& stretch : group->stretches) {
      const int64_t rows = stretch.own * compiled_.pack.sharing_ranks;
      for (int slot = 0; slot < stretch.slots; ++slot)
        all.push_back({whole + (stretch.first_row + slot * rows) * row, rows * row,
                       static_cast<uint64_t>(own + (stretch.first_own_row + slot * stretch.own) * row),
                       stretch.own * row});
    }
  }
  return all;
}

runtime::ExchangePlace LayoutMaker::exchange() const {
  using By = runtime::ExchangePlace::By;
  if (compiled_.plan.exchange_bytes == 0) return {};
  const bool asked = compiled_.spec.parallel.exchange == spec::Exchange::copies;
  return {asked ? By::copies : By::automatic, compiled_.plan.exchange_offset, compiled_.plan.exchange_bytes};
}

// 6 N, N trained weights of matmuls, and attention's; frozen ones have less.
double LayoutMaker::flop_per_target() const {
  double flop = 0;
  for (const ir::Value& value : graph_.values) {
    if (value.parameter)
      flop += value.parameter->flop * value.parameter->token_share * times_multiplied(compiled_, value) *
              static_cast<double>(element_count(models::whole_shape(value)) * value.slots);
  }
  return flop + static_cast<double>(compiled_.spec.parallel.tensor) * attention_flop_per_target(compiled_);
}

runtime::ProgramLayout LayoutMaker::make() const {
  runtime::ProgramLayout layout;
  layout.arena_bytes = compiled_.plan.arena_bytes;
  layout.persistent_bytes = compiled_.plan.persistent_bytes;
  layout.input_bytes = compiled_.plan.input_bytes;
  layout.host_bytes = compiled_.plan.host_bytes;
  layout.kept_bytes = compiled_.plan.kept_bytes;
  layout.exchange = exchange();
  layout.inputs = inputs();
  layout.state = state();
  layout.results = results();
  layout.metrics = metrics();
  layout.seed = static_cast<uint32_t>(compiled_.spec.train.seed);
  layout.starts = starts();
  if (compiled_.interface.rope_cos != ir::kNoValue) layout.rope = rope();
  layout.parameters = parameter_tensors(compiled_);
  layout.base_parameters = base_tensors(compiled_);
  layout.encoder_parameters = encoder_tensors(compiled_);
  layout.optimizer_state = optimizer_tensors(compiled_);
  layout.gradients = gradients();
  layout.divided = divided();
  layout.working_copies = std::ranges::any_of(compiled_.program.functions, [](const program::Function& f) {
    return f.name == to_string(runtime::Function::load);
  });
  layout.tensor_ranks = compiled_.spec.parallel.tensor;
  if (layout.state.first_row) layout.stream_rows = models::stream_rows(compiled_.spec).size;
  layout.gathers_weights = compiled_.pack.shards_weights;
  layout.vocabulary = compiled_.spec.model.vocab_size;
  layout.gradient_accumulation_steps = spec::micro_batches_of_step(compiled_.spec);
  layout.reply_micro_batches = spec::sampled_micro_batches(compiled_.spec);
  layout.context_length = compiled_.spec.train.sequence_len;
  layout.cache = cache();
  layout.texts = texts();
  layout.flop_per_target = flop_per_target();
  layout.calls = runtime::CallTable(call_table(compiled_, SpecPlaces::lines));
  return layout;
}

}  // namespace

double attention_flop_per_target(const driver::Compiled& compiled) {
  const auto& regions =
      compiled.graph.function(std::string(to_string(runtime::Function::micro_step))).regions;
  const auto is_differentiated = [&](const ir::Region& region) {
    return std::ranges::find(regions, region.name + "_backward", &ir::Region::name) != regions.end();
  };
  double flop = 0;
  for (const ir::Region& region : regions) {
    for (const ir::Node& node : region.nodes) {
      if (node.op != ir::Op::attention || region.backward) continue;
      const int passes = is_differentiated(region) ? 3 : 1;
      flop += passes * ops::op_info(node.op).cost(compiled.graph, node).flop * std::max(region.layers, 1);
    }
  }
  const spec::Train& t = compiled.spec.train;
  return flop / static_cast<double>(t.micro_batch_size * t.sequence_len);
}

namespace {

template <class Counts>
int64_t count_parameters(const driver::Compiled& compiled, const Counts& counts) {
  int64_t count = 0;
  for (const ir::Value& value : compiled.graph.values) {
    if (value.parameter && counts(value)) count += element_count(models::whole_shape(value)) * value.slots;
  }
  return count;
}

}  // namespace

int64_t parameter_count(const driver::Compiled& compiled) {
  return count_parameters(compiled, [](const ir::Value&) { return true; });
}

int64_t own_parameter_count(const driver::Compiled& compiled) {
  int64_t count = 0;
  for (const ir::Value& value : compiled.graph.values)
    if (value.parameter) count += element_count(value.shape) * value.slots;
  return count;
}

int64_t trained_count(const driver::Compiled& compiled) {
  return count_parameters(compiled, [](const ir::Value& value) { return value.trains(); });
}

int times_multiplied(const driver::Compiled& compiled, const ir::Value& parameter) {
  const spec::Model& m = compiled.spec.model;
  if (parameter.shape.size() != 2 || parameter.name == "position_embedding") return 0;
  if (parameter.name == "token_embedding") return m.tie_word_embeddings ? 1 : 0;
  return parameter.name.starts_with("mlp.") ? static_cast<int>(m.mor.recursions) : 1;
}

runtime::ProgramLayout layout_of(const driver::Compiled& compiled) {
  return LayoutMaker(compiled).make();
}

}  // namespace hydrac::targets
