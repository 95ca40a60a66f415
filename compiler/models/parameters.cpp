#include "models/parameters.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "models/attention/attention.h"
#include "models/declarer.h"
#include "spec/hugging_face/hugging_face.h"
#include "targets/target.h"

namespace hydrac::models {

using ir::CheckpointPart;

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
  // Each residual branch adds to the stream, so its last matrix starts smaller (GPT-2): deviation /
  // sqrt(branches).
  const double residual_deviation =
      m.initializer_range / std::sqrt(2.0 * static_cast<double>(m.num_hidden_layers));
  const int64_t vocab = vocab_rows_of_one(spec);
  parameters.embedding = declare_embedding(declarer, m, vocab);
  parameters.attention = declare_attention(declarer, m, residual_deviation);
  if (spec::has_experts(spec))
    parameters.moe = declare_moe(declarer, m, residual_deviation);
  else
    parameters.mlp = declare_mlp(declarer, m, residual_deviation);
  if (spec::has_recursions(spec)) parameters.recursions = declare_recursions(declarer, m);
  parameters.norms = declare_norms(declarer, m);
  parameters.layers_of_iteration = spec::layers_of_iteration(spec);
  if (spec::routes_tokens(spec)) parameters.router = declare_router(declarer, m);
  parameters.head = declare_head(declarer, m, vocab, parameters.embedding.tokens);
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
    const bool is_norm_of_next = value == norms.stream.weight || value == norms.stream.bias;
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
