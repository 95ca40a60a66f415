#include "models/transformer.h"

#include "ir/body_builder.h"
#include "models/attention.h"
#include "models/blocks.h"
#include "models/router.h"

namespace hydrac::models {

namespace {

using ir::DType;
using ir::Role;
using ir::ValueId;

ValueId declare(ir::Graph& graph, const std::string& name, ir::Shape shape, DType dtype, Role role) {
  ir::Value value;
  value.name = name;
  value.shape = std::move(shape);
  value.dtype = dtype;
  value.role = role;
  return graph.add(std::move(value));
}

Interface declare_interface(ir::Graph& graph, const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  const ir::Dim B{spec.train.micro_batch_size, "B"}, T{spec.train.sequence_len, "T"}, O{m.num_labels, "O"};
  Interface io;
  if (m.input == spec::Input::tokens) {
    io.tokens = declare(graph, "tokens", {B, T}, DType::i32, Role::input);
  } else {
    io.features = declare(graph, "features", {B, T, {m.num_features, "N"}}, DType::f32, Role::input);
  }
  const bool shares_layers = spec.parallel.tensor > 1;
  if (shares_layers && m.input == spec::Input::tokens)
    io.own_tokens = declare(graph, "own_tokens", {B, T}, DType::f32, Role::input);
  if (shares_layers && m.head == spec::Head::language_model && vocab_rows(spec) != m.vocab_size)
    io.own_classes = declare(graph, "own_classes", {}, DType::i32, Role::state);
  if (shares_layers && (m.attention_dropout > 0 || (has_adapters(spec) && spec.adapter.dropout > 0)))
    io.own_seed = declare(graph, "own_seed", {}, DType::u32, Role::state);
  if (divides_stream(spec) && m.dropout > 0)
    io.first_row = declare(graph, "first_row", {}, DType::i32, Role::state);
  if (spec.data.document_mask) {
    io.documents = declare(graph, "documents", {B, T, {2, ""}}, DType::i32, Role::input);
    if (m.position != spec::Position::none)
      io.positions = declare(graph, "positions", {B, T}, DType::i32, Role::input);
  }
  io.targets = m.head == spec::Head::regression
                   ? declare(graph, "targets", {B, T, O}, DType::f32, Role::input)
                   : declare(graph, "targets", {B, T}, DType::i32, Role::input);
  io.inv_count = declare(graph, "inv_count", {}, DType::f32, Role::input);
  if (spec.optimizations.precision == spec::Precision::fp16)
    io.loss_scale = declare(graph, "loss_scale", {}, DType::f32, Role::optimizer_state);
  io.loss = declare(graph, "loss", {}, DType::f32, Role::state);
  io.eval_loss = declare(graph, "eval_loss", {}, DType::f32, Role::state);
  if (m.head == spec::Head::classification)
    io.eval_hits = declare(graph, "eval_hits", {}, DType::f32, Role::state);
  if (spec::routes_tokens(spec)) {
    io.places = declare(graph, "router.places", {B, T}, DType::i32, Role::state);
    graph.value(io.places).slots = static_cast<int>(m.num_hidden_layers) / spec::layers_of_iteration(spec);
  }
  if (spec::has_recursions(spec)) {
    io.token_depths = declare(graph, "router.depths", {B, T}, DType::f32, Role::state);
    graph.value(io.token_depths).slots = static_cast<int>(m.num_hidden_layers);
  }
  io.rng_step = declare(graph, "rng_step", {}, DType::u32, Role::state);
  io.rng_seed = declare(graph, "rng_seed", {}, DType::u32, Role::state);
  if (m.position == spec::Position::rope) {
    const ir::Shape table = {T, {m.head_dim / 2, "D/2"}};
    io.rope_cos = declare(graph, "rope_cos", table, DType::f32, Role::constant);
    io.rope_sin = declare(graph, "rope_sin", table, DType::f32, Role::constant);
  }
  return io;
}

// A value with a slot a layer, or one more. Where layers are of different kinds, those of one kind have a
// value of their own, as parameters have.
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

ir::Region& add_region(ir::Function& function, const std::string& name, int layers) {
  function.regions.push_back({name, layers, false, false, {}});
  return function.regions.back();
}

// What a block's first part makes of a stream x, and the stream behind it.
struct Attended {
  Use added, stream;
};

Attended add_attention(ops::RegionBuilder& block, const Build& build, Use x, Use attention_input) {
  const Use added = attention_block(block, build, attention_input);
  block.enter("residual", "model.hidden_size");
  const Use stream = ops::add(block, x, added, "residual_mid");
  if (block.value(x).exact) block.exact(stream);
  return {added, stream};
}

// What its second part makes of that stream.
Use mlp_of(ops::RegionBuilder& block, const Build& build, Use middle) {
  const Parameters& p = build.model.parameters;
  block.enter("norm", "model.norm");
  const Use mlp_input =
      norm(block, build, middle, build.layer(p.mlp_norm_weight), build.layer(p.mlp_norm_bias), "mlp_normed");
  return mlp_block(block, build, whole_rows(block, build, mlp_input, true, "mlp_input"), "mlp");
}

// The stream behind attention -> behind the mlp, into the stream's use `next`.
Use add_mlp(ops::RegionBuilder& block, const Build& build, Use middle, Use next) {
  if (spec::has_recursions(build.model.spec)) return add_recursions(block, build, middle, next);
  const Use from_mlp = mlp_of(block, build, middle);
  block.enter("residual", "model.hidden_size");
  block.into(next);
  return ops::add(block, middle, from_mlp, "residual");
}

// A layer's norm before attention, of the stream x; it stands at the end of the layer before.
void add_norm_of_layer(ops::RegionBuilder& block, const Build& build, Use x, ValueId normed, int ahead) {
  const Parameters& p = build.model.parameters;
  block.enter("norm", "model.norm");
  block.into(build.layer(normed, ahead));
  norm(block, build, x, build.layer(p.attn_norm_weight, ahead), build.layer(p.attn_norm_bias, ahead),
       "normed");
}

// One layer of those that the region loops over: from slot l of the stream and of its norm to slot l + 1.
void add_block(const Build& build, ir::Region& region, ValueId residual, ValueId normed) {
  ops::RegionBuilder block(build.model.graph, region);
  block.enter("norm", "model.norm");
  const Use attention_input = whole_rows(block, build, build.layer(normed), true, "attn_input");
  const Use middle = add_attention(block, build, build.layer(residual), attention_input).stream;
  const Use next = add_mlp(block, build, middle, build.layer(residual, 1));
  if (!build.is_routed(1)) add_norm_of_layer(block, build, next, normed, 1);
}

// The same of a layer that computes the tokens its router chooses. Their sum of both parts, times the score's
// sigmoid, is added to the stream; the others pass by. Their norm is taken of them alone.
void add_routed_block(const Build& build, ir::Region& region, ValueId residual, ValueId normed) {
  const Parameters& p = build.model.parameters;
  ops::RegionBuilder block(build.model.graph, region);
  const Use stream = build.layer(residual);
  const Route route = route_tokens(block, build, stream);
  const Use x = taken(block, stream, route.choice, "chosen");
  Build chosen = build;
  chosen.tokens = block.shape(x)[1];
  chosen.chosen_positions = route.positions;
  chosen.places_in_cache = route.places_in_cache;
  block.enter("norm", "model.norm");
  const Use attention_input =
      norm(block, build, x, build.layer(p.attn_norm_weight), build.layer(p.attn_norm_bias), "attn_normed");
  const Attended attended = add_attention(block, chosen, x, attention_input);
  const Use from_mlp = mlp_of(block, chosen, attended.stream);
  block.enter("residual", "model.mod.capacity");
  const Use sum = ops::add(block, attended.added, from_mlp, "branches", "attention");
  const Use gated = ops::gate_rows(block, sum, route.score, "gated");
  const Use added = ops::spread_tokens(block, gated, route.choice, "spread");
  block.into(build.layer(residual, 1));
  const Use next = ops::add(block, stream, added, "residual");
  add_norm_of_layer(block, build, next, normed, 1);
}

// The stream, or its norm: a slot in front of each layer and one behind the last.
ValueId add_stream(const Build& build, const std::string& name, bool exact) {
  const spec::Spec& spec = build.model.spec;
  const ir::Dim C{spec.model.hidden_size, "C"};
  ir::Value value;
  value.name = name;
  value.shape =
      build.divides_stream() ? ir::Shape{stream_rows(spec), C} : ir::Shape{build.batch, build.tokens, C};
  value.exact = exact;
  value.slots = static_cast<int>(spec.model.num_hidden_layers) + 1;
  return add_layers(build.model, value);
}

// What the blocks make: the stream behind each of them (slots), and the normed output of the last.
struct Hidden {
  ValueId stream = ir::kNoValue;
  Use last;
};

// From the inputs to the normed output of the last layer. The function's regions are "input" and
// "block", or, where some layers' parameters are frozen, a loop for each run of layers that are alike; a loop
// begins at iteration `cut` too.
Hidden hidden_states(const Build& build, ir::Function& function, int cut = 0) {
  Model& model = build.model;
  const int step = model.parameters.layers_of_iteration;
  const int layers = static_cast<int>(model.spec.model.num_hidden_layers), iterations = layers / step;
  const bool exact_residual = model.spec.optimizations.residual == spec::ResidualType::fp32;
  const std::vector<int> starts = [&] {
    std::vector<int> all = model.parameters.first_iterations();
    if (const auto at = std::ranges::lower_bound(all, cut);
        cut < iterations && (at == all.end() || *at != cut))
      all.insert(at, cut);
    return all;
  }();
  const ValueId residual = add_stream(build, "residual", exact_residual),
                normed = add_stream(build, "normed", false);

  ops::RegionBuilder input(model.graph, add_region(function, "input", 0));
  const Use first = embed(input, build, build.fixed(residual));
  input.enter("norm", "model.norm");
  input.into(build.fixed(normed));
  norm(input, build, first, build.fixed(model.parameters.attn_norm_weight),
       build.fixed(model.parameters.attn_norm_bias), "normed");

  for (size_t i = 0; i < starts.size(); ++i) {
    const int first = starts[i], end = i + 1 < starts.size() ? starts[i + 1] : iterations;
    const std::string name = starts.size() == 1 ? "block" : "block" + std::to_string(first);
    ir::Region& region = add_region(function, name, end - first);
    region.first_layer = first;
    for (int block = 0; block < step; ++block) {
      Build part = build;
      part.first_layer = first * step + block;
      (part.is_routed() ? add_routed_block : add_block)(part, region, residual, normed);
    }
  }
  return {residual, build.fixed(normed, layers)};
}

ir::Function& add_function(Model& model, const std::string& name) {
  model.graph.functions.push_back({name, {}});
  return model.graph.functions.back();
}

bool is_language_model(const spec::Spec& spec) {
  return spec.model.input == spec::Input::tokens && spec.model.head == spec::Head::language_model;
}

ir::Dim sequence_tokens(const spec::Spec& spec) {
  return {spec.train.sequence_len, "T"};
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
  if (softcap == 0 && !has_parts) b.into(build.fixed(into));
  Use logits = head(b, build, hidden);
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
  const Use scale = training ? build.fixed(model.interface.loss_scale) : Use{};
  const Use weights = training ? build.fixed(model.interface.objective.weights) : Use{};
  ops::mean_loss(b, rows, build.fixed(model.interface.inv_count), build.fixed(loss), training, scale,
                 weights);
  if (training || model.interface.eval_hits == ir::kNoValue) return;
  b.enter("accuracy", "model.head");
  ops::hits(b, predictions, build.fixed(model.interface.targets), spec.model.num_labels,
            build.fixed(model.interface.eval_hits));
}

// `text_rows`: of a call of "embed", where an encoder embeds replies; its activations are stored as
// `storage`.
void declare_objective(Model& model, int64_t text_rows, DType storage) {
  const spec::Spec& spec = model.spec;
  ir::Graph& graph = model.graph;
  const ir::Dim B{spec.train.micro_batch_size, "B"},
      T = sequence_tokens(spec), P{spec::prompts_of_rank(spec), "Sets"}, N{spec.objective.replies, "Setsize"};
  const spec::Encoder* encoder = spec::encoder_of_replies(spec);
  ObjectiveInterface& io = model.interface.objective;
  io.weights = declare(graph, "target_weights", {B, T}, DType::f32, Role::input);
  if (encoder)
    io.encoder = declare_encoder(graph, *encoder, text_rows, storage);
  else
    io.segments = declare(graph, "segments", {B, T}, DType::i32, Role::input);
  io.losses = declare(graph, "target_losses", {B, T}, DType::f32, Role::state);
  if (spec.objective.kl > 0)
    io.base_losses = declare(graph, "base_target_losses", {B, T}, DType::f32, Role::state);
  const ir::Dim C =
      encoder ? ir::Dim{encoder->hidden_size, "Textwidth"} : ir::Dim{spec.model.hidden_size, "C"};
  constexpr int64_t kRows = 8;  // that a tensor core's matmul takes at once
  const ir::Dim rows{(P.size * N.size + kRows - 1) / kRows * kRows, "Embeddings"};
  io.embeddings = declare(graph, "reply_embeddings", {rows, C}, DType::f32, Role::state);
  io.sets = declare(graph, "reply_sets", {P, N, C}, DType::f32, Role::state);
  graph.value(io.sets).view =
      ir::View{io.embeddings, 0, 0, ir::contiguous_strides(graph.value(io.sets).shape)};
  io.distance = declare(graph, "reply_distance", {P}, DType::f32, Role::state);
  io.distances = declare(graph, "reply_distances", {P, N}, DType::f32, Role::state);
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

void declare_generate(Model& model) {
  const spec::Spec& spec = model.spec;
  Interface& io = model.interface;
  io.prompt = declare(model.graph, "prompt", {{1, "1"}, sequence_tokens(spec)}, DType::i32, Role::input);
  io.position = declare(model.graph, "position", {}, DType::i32, Role::input);
  io.logits = declare(model.graph, "next_logits",
                      {{1, "1"}, {vocab_rows(spec), spec.parallel.tensor > 1 ? "Vocabulary" : "V"}},
                      DType::f32, Role::state);
  if (spec.parallel.tensor > 1)
    io.own_prompt =
        declare(model.graph, "own_prompt", {{1, "1"}, sequence_tokens(spec)}, DType::f32, Role::input);
}

void declare_cache(Model& model, const Generation& generation, DType storage) {
  const spec::Spec& spec = model.spec;
  ir::Graph& graph = model.graph;
  const ir::Dim S{generation.sequences, "Sequences"}, A{generation.prompts, "Prompts"},
      P{generation.prompt_tokens, "Prompttokens"}, V{vocab_rows(spec), "V"};
  CacheInterface& io = model.interface.cache;
  io.prompts = declare(graph, "prompts", {A, P}, DType::i32, Role::input);
  io.prompt_rows = declare(graph, "prompt_rows", {A}, DType::i32, Role::input);
  io.prompt_ends = declare(graph, "prompt_ends", {A}, DType::i32, Role::input);
  io.tokens = declare(graph, "next_tokens", {S, {1, "1"}}, DType::i32, Role::input);
  io.positions = declare(graph, "next_positions", {S, {1, "1"}}, DType::i32, Role::input);
  io.prompt_logits = declare(graph, "prompt_logits", {A, V}, DType::f32, Role::state);
  io.logits = declare(graph, "next_logits", {S, {1, "1"}, V}, DType::f32, Role::state);
  if (generation.top > 0) {
    const ir::Dim N{generation.top, "Top"};
    io.inverse_temperature = declare(graph, "inverse_temperature", {}, DType::f32, Role::input);
    io.vocabulary = declare(graph, "vocabulary", {}, DType::i32, Role::input);
    io.uniforms = declare(graph, "uniforms", {S, {2, "2"}}, DType::f32, Role::input);
    io.top_values = declare(graph, "top_logits.values", {S, N}, DType::f32, Role::state);
    io.top_ids = declare(graph, "top_logits.ids", {S, N}, DType::i32, Role::state);
    io.top_sums = declare(graph, "top_logits.sums", {S}, DType::f32, Role::state);
    io.drawn = declare(graph, "top_logits.drawn", {S}, DType::i32, Role::state);
  }
  const int64_t kv_heads = spec.model.num_key_value_heads;
  const ir::Dim M = generation.tokens > 0 ? ir::Dim{generation.tokens, "Cached"} : sequence_tokens(spec);
  ir::Shape shape = {
      S, {kv_heads, kv_heads == spec.model.num_attention_heads ? "H" : "K"}, M, {spec.model.head_dim, "D"}};
  if (generation.pages > 0) {
    const int64_t of_sequence = (M.size + generation.page_tokens - 1) / generation.page_tokens;
    io.page_table = declare(graph, "page_table", {S, {of_sequence, "Textpages"}}, DType::i32, Role::input);
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

}  // namespace

Model declare_model(ir::Graph& graph, const spec::Spec& spec, const std::optional<Generation>& cache,
                    DType storage) {
  Parameters parameters = declare_parameters(graph, spec);
  Model model{spec, graph, parameters, declare_interface(graph, spec)};
  if (cache)
    declare_cache(model, *cache, storage);
  else if (is_language_model(spec))
    declare_generate(model);
  if (spec::has_objective(spec)) declare_objective(model, cache ? cache->text_rows : 1, storage);
  return model;
}

void build_micro_step(Model& model, int cut) {
  build_loss(model, "micro_step", Phase::train, model.interface.loss, cut);
}
void build_evaluate(Model& model) {
  build_loss(model, "evaluate", Phase::evaluate, model.interface.eval_loss);
}

void advance_randomness(Model& model) {
  ir::Function& function = model.graph.function("micro_step");
  // Below a loop of layers nothing may train; within it, each iteration would advance it.
  if (function.regions.back().layers > 0) add_region(function, "randomness", 0);
  ops::RegionBuilder b(model.graph, function.regions.back());
  b.enter("state", "train.seed");
  const Use step{model.interface.rng_step, {}};
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
  const Use token = ops::select_token(b, hidden, build.fixed(model.interface.position), "last_hidden");
  add_logits(b, build, token, model.interface.logits);
}

void build_prefill(Model& model) {
  const CacheInterface& io = model.interface.cache;
  const ir::Shape& prompts = model.graph.value(io.prompts).shape;
  ir::Function& function = add_function(model, "prefill");
  const Build build{model, prompts[0], prompts[1], Phase::prefill};
  const Use hidden = hidden_states(build, function).last;
  ops::RegionBuilder b(model.graph, add_region(function, "head", 0));
  b.enter("head", "sample.max_new_tokens");
  const Use token = ops::select_token(b, hidden, build.fixed(io.prompt_ends), "last_hidden");
  add_logits(b, build, token, io.prompt_logits);
}

void build_decode(Model& model) {
  const CacheInterface& io = model.interface.cache;
  const ir::Shape& tokens = model.graph.value(io.tokens).shape;
  ir::Function& function = add_function(model, "decode");
  const Build build{model, tokens[0], tokens[1], Phase::decode};
  const Use hidden = hidden_states(build, function).last;
  ops::RegionBuilder b(model.graph, add_region(function, "head", 0));
  add_logits(b, build, hidden, io.logits);
  if (io.top_values == ir::kNoValue) return;
  b.enter("head", "sample.temperature");
  ops::top_logits(
      b, build.fixed(io.logits), build.fixed(io.inverse_temperature), build.fixed(io.vocabulary),
      build.fixed(io.uniforms),
      {build.fixed(io.top_values), build.fixed(io.top_ids), build.fixed(io.top_sums), build.fixed(io.drawn)});
}

void build_score(Model& model) {
  const spec::Spec& spec = model.spec;
  const ObjectiveInterface& io = model.interface.objective;
  ir::Function& function = add_function(model, "score");
  const Build build{model, {spec.train.micro_batch_size, "B"}, sequence_tokens(spec), Phase::evaluate};
  const Hidden hidden = score(build, function, io.losses);
  if (spec::encoder_of_replies(spec)) return;
  const int64_t layer = spec.objective.embed_layer;
  const bool is_last = layer == spec.model.num_hidden_layers;
  ops::RegionBuilder b(model.graph, add_region(function, "distances", 0));
  add_distances(b, model, build.fixed(io.segments),
                is_last ? hidden.last : build.fixed(hidden.stream, static_cast<int>(layer)));
}

void build_score_base(Model& model) {
  ir::Function& function = add_function(model, "score_base");
  Build build{model, {model.spec.train.micro_batch_size, "B"}, sequence_tokens(model.spec), Phase::evaluate};
  build.adapted = false;
  score(build, function, model.interface.objective.base_losses);
}

}  // namespace hydrac::models
