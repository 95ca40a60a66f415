// Blocks normed behind their residual sums, attention that sees the whole text, and no dropout.
#include "models/encoder.h"

#include <cmath>

#include "models/blocks.h"

namespace hydrac::models {

namespace {

using ir::Dim;
using ir::DType;
using ir::Role;
using ir::ValueId;

// Declares what an encoder is given and its parameters, with their names in Hugging Face's files.
class EncoderDeclarer {
 public:
  EncoderDeclarer(ir::Graph& graph, const spec::Encoder& encoder, int64_t rows, DType storage)
      : graph_(graph), encoder_(encoder), rows_{rows, "Texts"}, storage_(storage) {}

  EncoderInterface run();

 private:
  struct Rows {
    std::string name;
    int64_t first = 0, count = 0;  // 0: all
  };

  ValueId input(const std::string& name, ir::Shape shape) {
    return add(name, std::move(shape), DType::i32, Role::input, 1);
  }
  ValueId add(const std::string& name, ir::Shape shape, DType dtype, Role role, int slots) {
    ir::Value value;
    value.name = "encoder." + name;
    value.shape = std::move(shape);
    value.dtype = dtype;
    value.role = role;
    value.slots = slots;
    return graph_.add(std::move(value));
  }
  ValueId frozen(const std::string& name, ir::Shape shape, DType dtype, int slots,
                 const std::vector<Rows>& tensors) {
    const int64_t all = shape[0].size;
    const ValueId id = add(name, std::move(shape), dtype, Role::frozen, slots);
    for (const Rows& rows : tensors)
      io_.tensors.push_back(
          {id, {rows.name, rows.first, rows.count ? rows.count : all, false, 0, slots - 1}});
    return id;
  }
  ValueId table(const std::string& name, Dim rows, const std::string& tensor) {
    return frozen(name, {std::move(rows), width_}, storage_, 1, {{"embeddings." + tensor + ".weight"}});
  }
  using Layer = EncoderInterface::Layer;
  Layer norm(const std::string& name, int slots, const std::string& tensor) {
    return {frozen(name + ".weight", {width_}, DType::f32, slots, {{tensor + ".weight"}}),
            frozen(name + ".bias", {width_}, DType::f32, slots, {{tensor + ".bias"}})};
  }
  // [out, in] of each layer, made of the outputs of `modules` one below the other.
  Layer linear(const std::string& name, const Dim& out, const Dim& in,
               const std::vector<std::string>& modules) {
    std::vector<Rows> weights, biases;
    const int64_t count = out.size / static_cast<int64_t>(modules.size());
    for (size_t i = 0; i < modules.size(); ++i) {
      const std::string module = "encoder.layer.{}." + modules[i];
      weights.push_back({module + ".weight", static_cast<int64_t>(i) * count, count});
      biases.push_back({module + ".bias", static_cast<int64_t>(i) * count, count});
    }
    return {frozen(name + ".weight", {out, in}, storage_, layers(), weights),
            frozen(name + ".bias", {out}, storage_, layers(), biases)};
  }
  int layers() const { return static_cast<int>(encoder_.num_hidden_layers); }

  ir::Graph& graph_;
  const spec::Encoder& encoder_;
  const Dim rows_;
  const DType storage_;
  const Dim width_{encoder_.hidden_size, "Textwidth"}, tokens_{encoder_.max_tokens, "Texttokens"};
  EncoderInterface io_;
};

EncoderInterface EncoderDeclarer::run() {
  graph_.inputs.text_tokens = input("tokens", {rows_, tokens_});
  graph_.inputs.text_documents = input("documents", {rows_, tokens_, {2, ""}});
  graph_.inputs.text_positions = input("positions", {rows_, tokens_});
  graph_.inputs.text_segments = input("segments", {rows_, tokens_});

  io_.word = table("word_embedding", {encoder_.vocab_size, "Textvocabulary"}, "word_embeddings");
  io_.position =
      table("position_embedding", {encoder_.max_position_embeddings, "Textpositions"}, "position_embeddings");
  io_.types = table("type_embedding", {encoder_.type_vocab_size, "Texttypes"}, "token_type_embeddings");
  io_.first_type = add("first_type", {width_}, storage_, Role::frozen, 1);
  graph_.value(io_.first_type).view = ir::View{io_.types, 0, 0, {1}};
  io_.input_norm = norm("input_norm", 1, "embeddings.LayerNorm");

  const Dim packed{3 * width_.size, "3Textwidth"}, inner{encoder_.intermediate_size, "Textinner"};
  io_.qkv =
      linear("qkv", packed, width_, {"attention.self.query", "attention.self.key", "attention.self.value"});
  io_.out = linear("out", width_, width_, {"attention.output.dense"});
  io_.attn_norm = norm("attn_norm", layers(), "encoder.layer.{}.attention.output.LayerNorm");
  io_.up = linear("up", inner, width_, {"intermediate.dense"});
  io_.down = linear("down", width_, inner, {"output.dense"});
  io_.mlp_norm = norm("mlp_norm", layers(), "encoder.layer.{}.output.LayerNorm");
  return std::move(io_);
}

Use once(ValueId value) {
  return {value, {false, 0}};
}
Use of_layer(ValueId value, int offset = 0) {
  return {value, {true, offset}};
}

// Word, position and the first type, normed.
void add_input(ops::RegionBuilder& b, const EncoderInterface& io, double epsilon, ValueId stream) {
  b.enter("embedding", "objective.embed");
  Use x = ops::embedding(b, once(b.graph().inputs.text_tokens), once(io.word), "encoder.embedding");
  x = ops::position_embedding(b, x, once(io.position), "encoder.positioned",
                              once(b.graph().inputs.text_positions));
  x = ops::bias_add(b, x, once(io.first_type), "encoder.typed");
  b.enter("norm", "objective.embed");
  b.into(once(stream));
  ops::layernorm(b, x, once(io.input_norm.weight), once(io.input_norm.bias), epsilon, "encoder.stream");
}

Use attention(ops::RegionBuilder& b, const Model& model, const spec::Encoder& encoder, Use x) {
  const EncoderInterface& io = model.interface.objective.encoder;
  b.enter("qkv", "objective.embed");
  const Use qkv = ops::linear(b, x, of_layer(io.qkv.weight), of_layer(io.qkv.bias), "encoder.qkv");
  const ir::Shape& tokens = b.shape(x);
  const ir::Shape heads = {tokens[0],
                           tokens[1],
                           {encoder.num_attention_heads, "Textheads"},
                           {encoder.head_dim(), "Textheadwidth"}};
  std::vector<Use> parts;
  for (const char* name : {"encoder.q", "encoder.k", "encoder.v"}) parts.push_back(b.fresh(name, heads));
  b.emit_node(ir::Op::split_qkv, {qkv}, parts);

  b.enter("attn", "objective.embed");
  ops::AttentionRules rules;
  rules.mask = ops::AttentionRules::Mask::full;
  rules.documents = true;
  const ops::Randomness unused{once(model.graph.state.rng_step), once(model.graph.state.rng_seed)};
  const double scale = 1 / std::sqrt(static_cast<double>(encoder.head_dim()));
  const Use mixed = ops::attention(b, parts[0], parts[1], parts[2], scale, rules, 0, unused, kAttentionSite,
                                   "encoder.mixed", once(b.graph().inputs.text_documents));
  b.enter("attn_out", "objective.embed");
  return ops::linear(b, mixed, of_layer(io.out.weight), of_layer(io.out.bias), "encoder.out");
}

Use mlp(ops::RegionBuilder& b, const EncoderInterface& io, const spec::Encoder& encoder, Use x) {
  b.enter("mlp", "objective.embed");
  const Use up = ops::linear(b, x, of_layer(io.up.weight), of_layer(io.up.bias), "encoder.up");
  b.enter("act", "objective.embed");
  const std::string kind(spec::to_string(encoder.hidden_act));
  const Use act = ops::activation(b, kind, up, "encoder.act");
  b.enter("mlp_out", "objective.embed");
  return ops::linear(b, act, of_layer(io.down.weight), of_layer(io.down.bias), "encoder.down");
}

// From slot l of the stream to slot l + 1.
void add_block(ops::RegionBuilder& b, const Model& model, const spec::Encoder& encoder, ValueId stream) {
  const EncoderInterface& io = model.interface.objective.encoder;
  const Use x = of_layer(stream), from_attention = attention(b, model, encoder, x);
  b.enter("residual", "objective.embed");
  Use sum = ops::add(b, x, from_attention, "encoder.attn_sum");
  b.enter("norm", "objective.embed");
  const Use middle = ops::layernorm(b, sum, of_layer(io.attn_norm.weight), of_layer(io.attn_norm.bias),
                                    encoder.norm_eps, "encoder.attn_normed");
  const Use from_mlp = mlp(b, io, encoder, middle);
  b.enter("residual", "objective.embed");
  sum = ops::add(b, middle, from_mlp, "encoder.mlp_sum");
  b.enter("norm", "objective.embed");
  b.into(of_layer(stream, 1));
  ops::layernorm(b, sum, of_layer(io.mlp_norm.weight), of_layer(io.mlp_norm.bias), encoder.norm_eps,
                 "encoder.stream");
}

}  // namespace

EncoderInterface declare_encoder(ir::Graph& graph, const spec::Encoder& encoder, int64_t rows,
                                 DType storage) {
  return EncoderDeclarer(graph, encoder, rows, storage).run();
}

void build_embed(Model& model) {
  const spec::Encoder& encoder = *spec::encoder_of_replies(model.spec);
  const EncoderInterface& io = model.interface.objective.encoder;
  const int layers = static_cast<int>(encoder.num_hidden_layers);
  ir::Value value;
  value.name = "encoder.stream";
  value.shape = model.graph.value(model.graph.inputs.text_tokens).shape;
  value.shape.push_back(model.graph.value(io.word).shape[1]);
  value.slots = layers + 1;
  const ValueId stream = model.graph.add(std::move(value));

  model.graph.functions.push_back(
      {"embed", {{.name = "input"}, {.name = "encoder", .layers = layers}, {.name = "distances"}}});
  ir::Function& function = model.graph.functions.back();
  ops::RegionBuilder input(model.graph, function.regions[0]);
  add_input(input, io, encoder.norm_eps, stream);
  ops::RegionBuilder block(model.graph, function.regions[1]);
  add_block(block, model, encoder, stream);
  ops::RegionBuilder distances(model.graph, function.regions[2]);
  add_distances(distances, model, once(model.graph.inputs.text_segments), {stream, {false, layers}});
}

}  // namespace hydrac::models
