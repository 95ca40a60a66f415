#include "models/parameters.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "models/attention.h"
#include "models/declarer.h"
#include "spec/hugging_face.h"
#include "targets/target.h"

namespace hydrac::models {

namespace {

using ir::CheckpointPart;
using ir::Dim;
using ir::Init;
using ir::Shape;
using ir::ValueId;

void declare_inputs(Declarer& d, Parameters& p, const spec::Model& m, Dim C, int64_t vocab) {
  if (m.input == spec::Input::tokens) {
    p.token_embedding = d.matrix("token_embedding", {{vocab, "V"}, C}, 1, m.initializer_range,
                                 {{d.named("token_embedding.weight"), 0, m.vocab_size}}, false,
                                 Declarer::Division::vocabulary);
  } else {
    p.input_weight = d.matrix("input.weight", {C, {m.num_features, "N"}}, 1, m.initializer_range,
                              {{"model.input_proj.weight"}}, false);
    p.input_bias = d.vector("input.bias", C, 1, {Init::Kind::zeros}, {{"model.input_proj.bias"}});
  }
  if (m.position == spec::Position::learned) {
    p.position_embedding = d.matrix("position_embedding", {{m.max_position_embeddings, "P"}, C}, 1,
                                    m.initializer_range, {{d.named("position_embedding.weight")}}, false);
  }
}

void declare_mlp(Declarer& d, Parameters& p, const spec::Model& m, Dim C, int layers,
                 double residual_deviation) {
  const bool gated = spec::is_gated(m.hidden_act);
  const int64_t inner = m.intermediate_size;
  const Dim up{gated ? 2 * inner : inner, gated ? "2F" : "F"};
  auto up_names = [&](const std::string& suffix) {
    std::vector<Declarer::Names> names;
    if (gated) names.push_back({d.named("mlp.gate." + suffix), 0, inner});
    names.push_back({d.named("mlp.up." + suffix), gated ? inner : 0, inner});
    return names;
  };
  using Division = Declarer::Division;
  p.up_weight = d.matrix("mlp.up.weight", {up, C}, layers, m.initializer_range, up_names("weight"), true,
                         Division::rows);
  if (m.mlp_bias)
    p.up_bias =
        d.vector("mlp.up.bias", up, layers, {Init::Kind::zeros}, up_names("bias"), {}, Division::rows);
  p.down_weight = d.matrix("mlp.down.weight", {C, {inner, "F"}}, layers, residual_deviation,
                           {{d.named("mlp.down.weight")}}, true, Division::columns);
  if (m.mlp_bias) {
    p.down_bias = d.vector("mlp.down.bias", C, layers, {Init::Kind::zeros}, {{d.named("mlp.down.bias")}});
    if (d.divides_stream()) d.mark_partial_gradient(p.down_bias);
  }
}

void declare_recursions(Declarer& d, Parameters& p, const spec::Model& m, Dim C, int layers) {
  const std::string at = "model.layers.{}.mor.";
  const Init normal{Init::Kind::normal, m.initializer_range};
  p.recursions.router_weight = d.vector("router.weight", C, layers, normal, {{at + "router.weight"}});
  p.recursions.router_bias =
      d.vector("router.bias", {1, "1"}, layers, {Init::Kind::zeros}, {{at + "router.bias"}});
  for (int64_t pass = 0; pass < m.mor.recursions; ++pass) {
    const std::string number = std::to_string(pass);
    p.recursions.embeddings.push_back(d.vector("recursion_embedding." + number, C, layers, normal,
                                               {{at + "recursion_embeddings." + number}}));
  }
}

void declare_norms(Declarer& d, Parameters& p, const spec::Model& m, Dim C, int layers) {
  const auto norm = [&](const std::string& name, int slots, const std::string& of_last_slot = "") {
    const auto vector = [&](const std::string& suffix, Init init) {
      std::optional<Declarer::Names> last;
      if (!of_last_slot.empty()) last = Declarer::Names{d.named(of_last_slot + suffix)};
      const ValueId id = d.vector(name + suffix, C, slots, init, {{d.named(name + suffix)}}, last);
      if (d.divides_stream()) d.mark_partial_gradient(id);
      return id;
    };
    NormParameters made{vector(".weight", norm_start(m))};
    if (m.norm_bias) made.bias = vector(".bias", {Init::Kind::zeros});
    return made;
  };
  if (m.norm_placement != spec::NormPlacement::output) {
    p.attn_norm = norm("attn_norm", layers + 1, "final_norm");
    p.mlp_norm = norm("mlp_norm", layers);
  } else {
    p.final_norm = norm("final_norm", 1);
  }
  if (m.norm_placement == spec::NormPlacement::input) return;
  p.attn_output_norm = norm("attn_output_norm", layers);
  p.mlp_output_norm = norm("mlp_output_norm", layers);
}

void declare_router(Declarer& d, Parameters& p, const spec::Model& m, Dim C) {
  p.router_weight = d.vector_of_routed("router.weight", C, {Init::Kind::normal, m.initializer_range},
                                       "model.layers.{}.router.weight");
  p.predictor_weight = d.vector_of_routed("predictor.weight", C, {Init::Kind::normal, m.initializer_range},
                                          "model.layers.{}.router.predictor.weight");
  p.predictor_bias = d.vector_of_routed("predictor.bias", {1, "1"}, {Init::Kind::zeros},
                                        "model.layers.{}.router.predictor.bias");
}

void declare_head(Declarer& d, Parameters& p, const spec::Model& m, Dim C, int64_t vocab) {
  if (m.head == spec::Head::language_model) {
    p.head_weight = m.tie_word_embeddings ? p.token_embedding
                                          : d.matrix("head.weight", {{vocab, "V"}, C}, 1, m.initializer_range,
                                                     {{d.named("head.weight"), 0, m.vocab_size}}, false,
                                                     Declarer::Division::vocabulary);
    return;
  }
  p.head_weight =
      d.matrix("head.weight", {{m.num_labels, "O"}, C}, 1, m.initializer_range, {{"score.weight"}}, false);
  p.head_bias = d.vector("head.bias", {m.num_labels, "O"}, 1, {Init::Kind::zeros}, {{"score.bias"}});
}

}  // namespace

Init norm_start(const spec::Model& m) {
  const double weight = 1 - m.norm_offset;
  return weight == 1 ? Init{Init::Kind::ones} : Init{Init::Kind::constant, weight};
}

namespace {

// Appends the family's tensors of the modules, each with its size; parts of one tensor together.
void add_zeros(std::vector<ZeroTensor>& zeros, const spec::Family& family, std::optional<int64_t> layer,
               const std::vector<std::pair<std::string, int64_t>>& tensors) {
  for (const auto& [ours, size] : tensors) {
    std::string name = family.tensor(ours);
    if (layer) name.replace(name.find("{}"), 2, std::to_string(*layer));
    if (!zeros.empty() && zeros.back().name == name)
      zeros.back().shape[0] += size;
    else
      zeros.push_back({std::move(name), {size}});
  }
}

}  // namespace

std::vector<ZeroTensor> checkpoint_zeros(const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  const spec::Family& family = spec::family_of(spec);
  const bool all = family.biases == spec::StoredBiases::always;
  const bool attention = all || (family.biases == spec::StoredBiases::attention_together &&
                                 (m.attention_bias || m.attention_output_bias));
  const int64_t C = m.hidden_size, q = m.num_attention_heads * m.head_dim,
                kv = m.num_key_value_heads * m.head_dim;
  std::vector<ZeroTensor> zeros;
  if (all && m.position == spec::Position::none)
    zeros.push_back({family.tensor("position_embedding.weight"), {m.max_position_embeddings, C}});
  if (all && !m.norm_bias) add_zeros(zeros, family, {}, {{"final_norm.bias", C}});
  for (int64_t layer = 0; layer < m.num_hidden_layers; ++layer) {
    if (all && !m.norm_bias) add_zeros(zeros, family, layer, {{"attn_norm.bias", C}, {"mlp_norm.bias", C}});
    if (attention && !m.attention_bias)
      add_zeros(zeros, family, layer, {{"attn.q.bias", q}, {"attn.k.bias", kv}, {"attn.v.bias", kv}});
    if (attention && !m.attention_output_bias) add_zeros(zeros, family, layer, {{"attn.out.bias", C}});
    if (all && !m.mlp_bias)
      add_zeros(zeros, family, layer, {{"mlp.up.bias", m.intermediate_size}, {"mlp.down.bias", C}});
  }
  return zeros;
}

Parameters declare_parameters(ir::Graph& graph, const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  Declarer declarer(graph, spec);
  Parameters parameters;
  const Dim C{m.hidden_size, "C"};
  const int layers = static_cast<int>(m.num_hidden_layers);
  // Each residual branch adds to the stream, so its last matrix starts smaller (GPT-2): deviation /
  // sqrt(branches).
  const double residual_deviation = m.initializer_range / std::sqrt(2.0 * layers);
  const int64_t vocab = vocab_rows_of_one(spec);
  declare_inputs(declarer, parameters, m, C, vocab);
  parameters.attention = declare_attention(declarer, m, residual_deviation);
  declare_mlp(declarer, parameters, m, C, layers, residual_deviation);
  if (spec::has_recursions(spec)) declare_recursions(declarer, parameters, m, C, layers);
  declare_norms(declarer, parameters, m, C, layers);
  parameters.layers_of_iteration = spec::layers_of_iteration(spec);
  if (spec::routes_tokens(spec)) declare_router(declarer, parameters, m, C);
  declare_head(declarer, parameters, m, C, vocab);
  parameters.adapters = declarer.declare_adapters();
  parameters.runs = declarer.take_runs();
  return parameters;
}

ir::Use Parameters::at(ValueId value, ir::Slot slot) const {
  const auto found = runs.find(value);
  if (found == runs.end()) return {value, slot};
  for (const SlotRun& run : found->second) {
    if (run.has(slot.index)) return {run.value, {slot.per_layer, (slot.index - run.first) / run.step}};
  }
  throw std::logic_error("a layer has no such value");
}

// A block may end with the norm that the layer behind it begins with: passes::rotate_norms.
std::set<int> Parameters::first_iterations() const {
  std::set<int> iterations = {0};
  for (const auto& [value, parts] : runs) {
    const bool is_norm_of_next = value == attn_norm.weight || value == attn_norm.bias;
    for (const SlotRun& run : parts) {
      iterations.insert(run.first / layers_of_iteration);
      if (is_norm_of_next && run.first > 0) iterations.insert((run.first - 1) / layers_of_iteration);
    }
  }
  return iterations;
}

namespace {

int64_t padded_vocabulary(const spec::Spec& spec, int64_t ranks) {
  const int64_t tile = ranks * (targets::find(spec.target)->is_cpu() ? 1 : 128);
  return (spec.model.vocab_size + tile - 1) / tile * tile;
}

}  // namespace

int64_t vocab_rows(const spec::Spec& spec) {
  return padded_vocabulary(spec, spec.parallel.tensor);
}

int64_t vocab_rows_of_one(const spec::Spec& spec) {
  return padded_vocabulary(spec, 1);
}

int64_t own_vocab_rows(const spec::Spec& spec) {
  return vocab_rows(spec) / spec.parallel.tensor;
}

bool divides_stream(const spec::Spec& spec) {
  return spec.parallel.tensor > 1 &&
         spec.train.micro_batch_size * spec.train.sequence_len % spec.parallel.tensor == 0;
}

ir::Dim stream_rows(const spec::Spec& spec) {
  return {spec.train.micro_batch_size * spec.train.sequence_len / spec.parallel.tensor, "Tokens"};
}

const ir::Shape& whole_shape(const ir::Value& parameter) {
  return parameter.parameter->split ? parameter.parameter->split->whole : parameter.shape;
}

int64_t checkpoint_rows(const ir::Value& parameter) {
  int64_t rows = 0;
  for (const CheckpointPart& part : parameter.parameter->checkpoint)
    rows = std::max(rows, part.first_row + part.rows);
  return rows;
}

std::string module_of(const CheckpointPart& weight) {
  return weight.name.substr(0, weight.name.rfind('.'));
}

}  // namespace hydrac::models
