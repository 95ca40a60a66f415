// Attention of one new token of each sequence over the keys and values that the sequence left in the cache.
// Targets bring the kernels.
#include "ops/attention_decode.h"

#include <algorithm>
#include <cmath>

#include "ops/attention_rules.h"
#include "ops/builder.h"
#include "ops/op.h"
#include "ops/shapes.h"

namespace hydrac::ops {

Use attention_decode(RegionBuilder& b, Use q, Use k, Use v, const KeyCache& cache, Use positions,
                     double scale, const AttentionRules& rules, const std::string& name) {
  const ir::Shape shape = b.shape(q);
  const ir::Dim heads{shape[2].size * shape[3].size, shape[2].symbol + shape[3].symbol};
  ir::Attributes attributes = attributes_of(rules);
  attributes["scale"] = scale;
  const Use out = b.emit(ir::Op::attention_decode, {q, k, v, positions, cache.keys, cache.values}, name,
                         {shape[0], shape[1], heads}, std::move(attributes));
  auto& outputs = b.region().nodes.back().outputs;
  outputs.insert(outputs.end(), {cache.keys, cache.values});
  return out;
}

bool rotates_in_decode(const ir::Node& node) {
  return node.inputs.size() > 6;
}

namespace {

// The rope that the node stands for, of q or k.
ir::Node rope_of(const ir::Node& node) {
  ir::Node rope;
  rope.op = ir::Op::rope;
  rope.inputs = {node.inputs[0], node.inputs[6], node.inputs[7], node.inputs[3]};
  rope.attributes = {{"inverse", false}, {"interleaved", node.optional_flag("interleaved")}};
  return rope;
}

// Of sequences that fill the cache: two matmuls over all keys, which are read once.
Cost attention_decode_cost(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value &q = graph.value(node.inputs[0]), &keys = graph.value(node.inputs[4]);
  const auto elements = [](const ir::Value& value) {
    return static_cast<double>(element_count(value.shape));
  };
  const auto tokens = static_cast<double>(keys.shape[2].size);
  return {4 * elements(q) * tokens, 2 * elements(keys) * static_cast<double>(size_of(keys.dtype))};
}

// As layer 0 computes it.
void attention_decode_reference(const ir::Node& node, const std::vector<Tensor64>& given,
                                std::vector<Tensor64>& out) {
  std::vector<Tensor64> in = given;
  if (rotates_in_decode(node)) {
    for (const size_t side : {0, 1}) {
      std::vector<Tensor64> turned = {given[side]};
      op_info(ir::Op::rope).reference(rope_of(node), {given[side], given[6], given[7], given[3]}, turned);
      in[side] = turned[0];
    }
  }
  const Tensor64& q = in[0];
  const int64_t B = q.shape[0], H = q.shape[2], D = q.shape[3], K = in[4].shape[1], M = in[4].shape[2];
  const AttentionRules rules = attention_rules(node);
  const double scale = node.number("scale");
  for (int side = 0; side < 2; ++side) {
    out[1 + side].data = in[4 + side].data;
    for (int64_t b = 0; b < B; ++b) {
      const auto position = static_cast<int64_t>(in[3].data[b]);
      for (int64_t head = 0; head < K; ++head)
        std::copy_n(&in[1 + side].data[(b * K + head) * D], D,
                    &out[1 + side].data[((b * K + head) * M + position) * D]);
    }
  }
  for (int64_t b = 0; b < B; ++b) {
    const auto position = static_cast<int64_t>(in[3].data[b]);
    for (int64_t h = 0; h < H; ++h) {
      const int64_t first = (b * K + h / (H / K)) * M * D;
      std::vector<double> weight(M);
      double sum = 0;
      for (int64_t j = 0; j <= position; ++j) {
        if (!sees(rules, M, 0, position, j)) continue;
        double score = 0;
        for (int64_t d = 0; d < D; ++d)
          score += scale * q.data[(b * H + h) * D + d] * out[1].data[first + j * D + d];
        if (rules.softcap > 0) score = rules.softcap * std::tanh(score / rules.softcap);
        weight[j] = std::exp(score);
        sum += weight[j];
      }
      for (int64_t d = 0; d < D; ++d) {
        double mixed = 0;
        for (int64_t j = 0; j <= position; ++j) mixed += weight[j] / sum * out[2].data[first + j * D + d];
        out[0].data[(b * H + h) * D + d] = mixed;
      }
    }
  }
}

}  // namespace

extern const OpInfo kAttentionDecode{
    .op = ir::Op::attention_decode,
    .formula = "out = softmax(scores(q keys^T), masked) values, with k and v among keys and values",
    .cost = attention_decode_cost,
    .reference = attention_decode_reference};

}  // namespace hydrac::ops
