#include "models/interface.h"

namespace hydrac::models {

using ir::DType;
using ir::Role;
using ir::ValueId;

namespace {

ValueId declare(ir::Graph& graph, const std::string& name, ir::Shape shape, DType dtype, Role role) {
  ir::Value value;
  value.name = name;
  value.shape = std::move(shape);
  value.dtype = dtype;
  value.role = role;
  return graph.add(std::move(value));
}

}  // namespace

ir::Dim sequence_tokens(const spec::Spec& spec) {
  return {spec.train.sequence_len, "T"};
}

ValueId add_layers(Model& model, const ir::Value& all) {
  const int step = model.parameters.layers_of_iteration;
  std::vector<SlotRun> runs;
  for (int first = 0; first < step; ++first) {
    ir::Value value = all;
    if (first > 0) value.name += "." + std::to_string(first);
    value.slots = (all.slots - first + step - 1) / step;
    const int slots = value.slots;
    runs.push_back({first, step, slots, model.graph.add(std::move(value))});
  }
  const ValueId id = runs[0].value;
  if (step > 1) model.parameters.runs[id] = std::move(runs);
  return id;
}

Interface declare_interface(ir::Graph& graph, const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  const ir::Dim B{spec.train.micro_batch_size, "B"}, T{spec.train.sequence_len, "T"}, O{m.num_labels, "O"};
  Interface io;
  if (m.input == spec::Input::tokens) {
    graph.inputs.tokens = declare(graph, "tokens", {B, T}, DType::i32, Role::input);
  } else {
    graph.inputs.features =
        declare(graph, "features", {B, T, {m.num_features, "N"}}, DType::f32, Role::input);
  }
  const bool shares_layers = spec.parallel.tensor > 1;
  if (shares_layers && m.input == spec::Input::tokens)
    graph.inputs.own_tokens = declare(graph, "own_tokens", {B, T}, DType::f32, Role::input);
  if (shares_layers && m.head == spec::Head::language_model && vocab_rows(spec) != m.vocab_size)
    graph.state.own_classes = declare(graph, "own_classes", {}, DType::i32, Role::state);
  if (shares_layers && (m.attention_dropout > 0 || (has_adapters(spec) && spec.adapter.dropout > 0)))
    graph.state.own_seed = declare(graph, "own_seed", {}, DType::u32, Role::state);
  if (divides_stream(spec) && m.dropout > 0)
    graph.state.first_row = declare(graph, "first_row", {}, DType::i32, Role::state);
  if (spec::reads_documents(spec)) {
    graph.inputs.documents = declare(graph, "documents", {B, T, {2, ""}}, DType::i32, Role::input);
    if (m.position != spec::Position::none)
      graph.inputs.positions = declare(graph, "positions", {B, T}, DType::i32, Role::input);
  }
  if (m.head == spec::Head::regression)
    graph.inputs.float_targets = declare(graph, "targets", {B, T, O}, DType::f32, Role::input);
  else
    graph.inputs.targets = declare(graph, "targets", {B, T}, DType::i32, Role::input);
  graph.inputs.inv_count = declare(graph, "inv_count", {}, DType::f32, Role::input);
  if (spec.optimizations.precision == spec::Precision::fp16)
    graph.state.loss_scale = declare(graph, "loss_scale", {}, DType::f32, Role::optimizer_state);
  graph.results.loss = declare(graph, "loss", {}, DType::f32, Role::state);
  graph.results.eval_loss = declare(graph, "eval_loss", {}, DType::f32, Role::state);
  if (m.head == spec::Head::classification)
    graph.results.eval_hits = declare(graph, "eval_hits", {}, DType::f32, Role::state);
  if (spec::routes_tokens(spec)) {
    io.places = declare(graph, "router.places", {B, T}, DType::i32, Role::state);
    graph.value(io.places).slots = static_cast<int>(m.num_hidden_layers) / spec::layers_of_iteration(spec);
  }
  if (spec::has_recursions(spec)) {
    io.token_depths = declare(graph, "router.depths", {B, T}, DType::f32, Role::state);
    graph.value(io.token_depths).slots = static_cast<int>(m.num_hidden_layers);
  }
  if (spec::has_experts(spec)) {
    io.experts = declare(graph, "router.experts", {B, T, {m.moe.top_k, "Chosen"}}, DType::i32, Role::state);
    graph.value(io.experts).slots = static_cast<int>(m.num_hidden_layers);
  }
  graph.state.rng_step = declare(graph, "rng_step", {}, DType::u32, Role::state);
  graph.state.rng_seed = declare(graph, "rng_seed", {}, DType::u32, Role::state);
  if (m.position == spec::Position::rope) {
    const int64_t half = spec::rope_width(m) / 2;
    const ir::Shape table = {spec::rope_period(m) > 0 ? ir::Dim{2 * T.size, "2" + T.symbol} : T,
                             {half, 2 * half == m.head_dim ? "D/2" : ""}};
    io.rope_cos = declare(graph, "rope_cos", table, DType::f32, Role::constant);
    io.rope_sin = declare(graph, "rope_sin", table, DType::f32, Role::constant);
  }
  return io;
}

void declare_objective(Model& model, int64_t text_rows, DType storage) {
  const spec::Spec& spec = model.spec;
  ir::Graph& graph = model.graph;
  const ir::Dim B{spec.train.micro_batch_size, "B"},
      T = sequence_tokens(spec), P{spec::prompts_of_rank(spec), "Sets"}, N{spec.objective.replies, "Setsize"};
  const spec::Encoder* encoder = spec::encoder_of_replies(spec);
  ObjectiveInterface& io = model.interface.objective;
  graph.inputs.target_weights = declare(graph, "target_weights", {B, T}, DType::f32, Role::input);
  if (encoder)
    io.encoder = declare_encoder(graph, *encoder, text_rows, storage);
  else
    graph.inputs.segments = declare(graph, "segments", {B, T}, DType::i32, Role::input);
  graph.results.target_losses = declare(graph, "target_losses", {B, T}, DType::f32, Role::state);
  if (spec.objective.kl > 0)
    graph.results.base_target_losses = declare(graph, "base_target_losses", {B, T}, DType::f32, Role::state);
  const ir::Dim C =
      encoder ? ir::Dim{encoder->hidden_size, "Textwidth"} : ir::Dim{spec.model.hidden_size, "C"};
  constexpr int64_t kRows = 8;  // that a tensor core's matmul takes at once
  const ir::Dim rows{(P.size * N.size + kRows - 1) / kRows * kRows, "Embeddings"};
  graph.results.reply_embeddings = declare(graph, "reply_embeddings", {rows, C}, DType::f32, Role::state);
  io.sets = declare(graph, "reply_sets", {P, N, C}, DType::f32, Role::state);
  graph.value(io.sets).view =
      ir::View{graph.results.reply_embeddings, 0, 0, ir::contiguous_strides(graph.value(io.sets).shape)};
  graph.results.reply_distance = declare(graph, "reply_distance", {P}, DType::f32, Role::state);
  graph.results.reply_distances = declare(graph, "reply_distances", {P, N}, DType::f32, Role::state);
}

void declare_generate(Model& model) {
  const spec::Spec& spec = model.spec;
  ir::Graph& graph = model.graph;
  graph.inputs.prompt = declare(graph, "prompt", {{1, "1"}, sequence_tokens(spec)}, DType::i32, Role::input);
  graph.inputs.position = declare(graph, "position", {}, DType::i32, Role::input);
  graph.results.logits = declare(
      graph, "next_logits", {{1, "1"}, {vocab_rows(spec), spec.parallel.tensor > 1 ? "Vocabulary" : "V"}},
      DType::f32, Role::state);
  if (spec.parallel.tensor > 1)
    graph.inputs.own_prompt =
        declare(graph, "own_prompt", {{1, "1"}, sequence_tokens(spec)}, DType::f32, Role::input);
}

void declare_cache(Model& model, const Generation& generation, DType storage) {
  const spec::Spec& spec = model.spec;
  ir::Graph& graph = model.graph;
  const ir::Dim S{generation.sequences, "Sequences"}, A{generation.prompts, "Prompts"},
      P{generation.prompt_tokens, "Prompttokens"}, V{vocab_rows(spec), "V"};
  CacheInterface& io = model.interface.cache;
  graph.inputs.prompts = declare(graph, "prompts", {A, P}, DType::i32, Role::input);
  graph.inputs.prompt_rows = declare(graph, "prompt_rows", {A}, DType::i32, Role::input);
  graph.inputs.prompt_ends = declare(graph, "prompt_ends", {A}, DType::i32, Role::input);
  graph.inputs.next_tokens = declare(graph, "next_tokens", {S, {1, "1"}}, DType::i32, Role::input);
  graph.inputs.next_positions = declare(graph, "next_positions", {S, {1, "1"}}, DType::i32, Role::input);
  graph.results.prompt_logits = declare(graph, "prompt_logits", {A, V}, DType::f32, Role::state);
  graph.results.next_logits = declare(graph, "next_logits", {S, {1, "1"}, V}, DType::f32, Role::state);
  if (generation.top > 0) {
    const ir::Dim N{generation.top, "Top"};
    graph.inputs.inverse_temperature = declare(graph, "inverse_temperature", {}, DType::f32, Role::input);
    graph.inputs.vocabulary = declare(graph, "vocabulary", {}, DType::i32, Role::input);
    graph.inputs.uniforms = declare(graph, "uniforms", {S, {2, "2"}}, DType::f32, Role::input);
    graph.results.top_values = declare(graph, "top_logits.values", {S, N}, DType::f32, Role::state);
    graph.results.top_ids = declare(graph, "top_logits.ids", {S, N}, DType::i32, Role::state);
    graph.results.top_sums = declare(graph, "top_logits.sums", {S}, DType::f32, Role::state);
    graph.results.drawn = declare(graph, "top_logits.drawn", {S}, DType::i32, Role::state);
  }
  const int64_t kv_heads = spec.model.num_key_value_heads;
  const ir::Dim M = generation.tokens > 0 ? ir::Dim{generation.tokens, "Cached"} : sequence_tokens(spec);
  ir::Shape shape = {
      S, {kv_heads, kv_heads == spec.model.num_attention_heads ? "H" : "K"}, M, {spec.model.head_dim, "D"}};
  if (generation.pages > 0) {
    const int64_t of_sequence = (M.size + generation.page_tokens - 1) / generation.page_tokens;
    graph.inputs.page_table =
        declare(graph, "page_table", {S, {of_sequence, "Textpages"}}, DType::i32, Role::input);
    shape[0] = {generation.pages, "Pages"};
    shape[2] = {generation.page_tokens, "Pagetokens"};
  }
  const auto of_layers = [&](const std::string& name) {
    ir::Value value;
    value.name = name;
    value.shape = shape;
    value.dtype = storage;
    value.role = Role::state;
    value.slots = static_cast<int>(spec.model.num_hidden_layers);
    return add_layers(model, value);
  };
  io.keys = of_layers("cache.keys");
  io.values = of_layers("cache.values");
}

}  // namespace hydrac::models
