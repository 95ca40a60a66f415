// Scaled-dot-product attention with grouped key/value heads (query head h reads kv head h / (H/K)),
// and its backward pass. Targets bring the kernels; lse [B,H,T], the log of each softmax's denominator, is
// what they save.
#include <cmath>

#include "hydrac/random.h"
#include "ops/attention_rules.h"
#include "ops/builder.h"
#include "ops/dropout.h"
#include "ops/gradient.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use attention(RegionBuilder& b, Use q, Use k, Use v, double scale, const AttentionRules& rules,
              double dropout, const Randomness& random, int64_t site, const std::string& name,
              Use documents) {
  const ir::Shape shape = b.shape(q);
  const ir::Dim heads{shape[2].size * shape[3].size, shape[2].symbol + shape[3].symbol};
  ir::Attributes attributes = attributes_of(rules);
  attributes.insert({{"scale", scale}, {"dropout", dropout}, {"site", site}});
  std::vector<Use> inputs = {q, k, v, random.step, random.seed};
  if (rules.documents) inputs.push_back(documents);
  const Use out =
      b.emit(ir::Op::attention, std::move(inputs), name, {shape[0], shape[1], heads}, std::move(attributes));
  const Use lse = b.exact(b.fresh(name + ".lse", {shape[0], shape[2], shape[1]}));
  b.region().nodes.back().outputs.push_back(lse);
  return out;
}

namespace {

void attention_gradient(Gradient& g, const ir::Node& node) {
  const Use dy = *g.of(node.outputs[0]);
  std::vector<Use> inputs = {dy, node.outputs[0], node.outputs[1]};
  inputs.insert(inputs.end(), node.inputs.begin(), node.inputs.end());
  std::vector<Use> outputs;
  for (int i = 0; i < 3; ++i) outputs.push_back(g.fresh(g.name_of(node.inputs[i]), g.shape(node.inputs[i])));
  g.emit_node(ir::Op::attention_backward, inputs, outputs, node.attributes);
  for (int i = 0; i < 3; ++i) g.contribute(node.inputs[i], outputs[i]);
}

// Flop of one T x T by D matmul for every head, counting only the pairs that the mask lets through.
double matmul_flop(const ir::Graph& graph, const ir::Node& node, int first_input) {
  const ir::Shape& q = graph.value(node.inputs[first_input]).shape;
  const auto tokens = static_cast<double>(q[1].size);
  return 2 * static_cast<double>(element_count(q)) / tokens * visible_pairs(attention_rules(node), q[1].size);
}

double operand_bytes(const ir::Graph& graph, const ir::Node& node) {
  double bytes = 0;
  for (const auto* uses : {&node.inputs, &node.outputs}) {
    for (Use use : *uses) {
      if (use.value == ir::kNoValue) continue;
      const ir::Value& value = graph.value(use);
      bytes += static_cast<double>(element_count(value.shape) * size_of(value.dtype));
    }
  }
  return bytes;
}

Cost forward_cost(const ir::Graph& graph, const ir::Node& node) {
  return {2 * matmul_flop(graph, node, 0), operand_bytes(graph, node)};
}

// Inputs: d_out, out, lse, then the forward's.
Cost attention_backward_cost(const ir::Graph& graph, const ir::Node& node) {
  return {5 * matmul_flop(graph, node, 3), operand_bytes(graph, node)};
}

// As layer 0 computes it.
void attention_reference(const ir::Node& node, const std::vector<Tensor64>& in, std::vector<Tensor64>& out) {
  const Tensor64 &q = in[0], &k = in[1], &v = in[2];
  const int64_t B = q.shape[0], T = q.shape[1], H = q.shape[2], D = q.shape[3], K = k.shape[2];
  const double p = node.number("dropout"), scale = node.number("scale");
  const AttentionRules rules = attention_rules(node);
  const auto same_document = [&](int64_t b, int64_t i, int64_t j) {
    if (!rules.documents) return true;
    const double* document = &in[5].data[(b * T + i) * 2];
    return document[0] <= static_cast<double>(j) && static_cast<double>(j) < document[1];
  };
  const uint32_t key = random_key(static_cast<uint32_t>(in[4].data[0]), static_cast<uint32_t>(in[3].data[0]),
                                  static_cast<uint32_t>(node.integer("site") * kSiteStride));
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t i = 0; i < T; ++i) {
        const double* qi = &q.data[((b * T + i) * H + h) * D];
        double* oi = &out[0].data[((b * T + i) * H + h) * D];
        auto row = [&](const Tensor64& x, int64_t j) { return &x.data[((b * T + j) * K + h / (H / K)) * D]; };
        std::vector<double> weight(T);
        double sum = 0;
        for (int64_t j = 0; j < T; ++j) {
          if (!sees(rules, T, 0, i, j) || !same_document(b, i, j)) continue;
          double score = 0;
          for (int64_t d = 0; d < D; ++d) score += scale * qi[d] * row(k, j)[d];
          if (rules.softcap > 0) score = rules.softcap * std::tanh(score / rules.softcap);
          weight[j] = std::exp(score);
          sum += weight[j];
        }
        for (int64_t d = 0; d < D; ++d) oi[d] = 0;
        for (int64_t j = 0; j < T; ++j) {
          const bool dropped =
              p > 0 && random_16_bits(key, score_index(b * H + h, T, i, j)) < dropout_threshold(p);
          const double probability = dropped ? 0 : weight[j] / sum / (1 - p);
          for (int64_t d = 0; d < D; ++d) oi[d] += probability * row(v, j)[d];
        }
        out[1].data[(b * H + h) * T + i] = std::log(sum);
      }
    }
  }
}

}  // namespace

extern const OpInfo kAttention{.op = ir::Op::attention,
                               .formula = "out = dropout(softmax(scores(q k^T), masked)) v",
                               .gradient = attention_gradient,
                               .cost = forward_cost,
                               .reference = attention_reference};
// passes/sum_in_attention adds a fourth output.
extern const OpInfo kAttentionBackward{.op = ir::Op::attention_backward,
                                       .formula = "d_q, d_k, d_v from d_out, out, lse",
                                       .cost = attention_backward_cost};

}  // namespace hydrac::ops
