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
  std::vector<Use> inputs = {q, k, v, positions, cache.keys, cache.values};
  if (cache.page_table.value != ir::kNoValue) {
    inputs.push_back(cache.page_table);
    attributes["paged"] = true;
  }
  const Use out = b.emit(ir::Op::attention_decode, std::move(inputs), name, {shape[0], shape[1], heads},
                         std::move(attributes));
  auto& outputs = b.region().nodes.back().outputs;
  outputs.insert(outputs.end(), {cache.keys, cache.values});
  return out;
}

std::optional<Use> page_table(const ir::Node& node) {
  if (!node.optional_flag("paged")) return std::nullopt;
  return node.inputs[6];
}

std::optional<DecodeRotation> rotation_in_decode(const ir::Node& node) {
  const size_t first = node.optional_flag("paged") ? 7 : 6;
  if (node.inputs.size() == first) return std::nullopt;
  return DecodeRotation{node.inputs[first], node.inputs[first + 1]};
}

namespace {

// The rope that the node stands for, of q or k.
ir::Node rope_of(const ir::Node& node, const DecodeRotation& rotation) {
  ir::Node rope;
  rope.op = ir::Op::rope;
  rope.inputs = {node.inputs[0], rotation.cos, rotation.sin, node.inputs[3]};
  rope.attributes = {{"inverse", false}, {"interleaved", node.optional_flag("interleaved")}};
  return rope;
}

// Assumes that sequences fill the cache, each an equal share of it: two matmuls over all keys, which are read
// once.
Cost attention_decode_cost(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value &q = graph.value(node.inputs[0]), &keys = graph.value(node.inputs[4]);
  const auto elements = [](const ir::Value& value) {
    return static_cast<double>(element_count(value.shape));
  };
  const double tokens =
      static_cast<double>(keys.shape[0].size * keys.shape[2].size) / static_cast<double>(q.shape[0].size);
  return {4 * elements(q) * tokens, 2 * elements(keys) * static_cast<double>(size_of(keys.dtype))};
}

// Place in the cache of the tokens of a sequence's kv head.
class CachedRows {
 public:
  CachedRows(const Tensor64& keys, const Tensor64* pages)
      : heads_(keys.shape[1]), tokens_(keys.shape[2]), width_(keys.shape[3]), pages_(pages) {}

  // The first element of a token's row; nullopt where its page is negative.
  std::optional<int64_t> at(int64_t sequence, int64_t head, int64_t token) const {
    int64_t unit = sequence, place = token;
    if (pages_) {
      unit = static_cast<int64_t>(pages_->data[sequence * pages_->shape[1] + token / tokens_]);
      place = token % tokens_;
    }
    if (unit < 0) return std::nullopt;
    return ((unit * heads_ + head) * tokens_ + place) * width_;
  }

 private:
  int64_t heads_, tokens_, width_;
  const Tensor64* pages_;  // [S,P]
};

// As layer 0 computes it.
void attention_decode_reference(const ir::Node& node, const std::vector<Tensor64>& given,
                                std::vector<Tensor64>& out) {
  std::vector<Tensor64> in = given;
  if (const auto rotation = rotation_in_decode(node)) {
    const Tensor64 &cos = given[given.size() - 2], &sin = given.back();
    for (const size_t side : {0, 1}) {
      std::vector<Tensor64> turned = {given[side]};
      op_info(ir::Op::rope).reference(rope_of(node, *rotation), {given[side], cos, sin, given[3]}, turned);
      in[side] = turned[0];
    }
  }
  const Tensor64& q = in[0];
  const int64_t B = q.shape[0], H = q.shape[2], D = q.shape[3], K = in[4].shape[1];
  const int64_t M = page_table(node) ? in[4].shape[2] * in[6].shape[1] : in[4].shape[2];
  const CachedRows cached(in[4], page_table(node) ? &in[6] : nullptr);
  const AttentionRules rules = attention_rules(node);
  const double scale = node.number("scale");
  for (int side = 0; side < 2; ++side) {
    out[1 + side].data = in[4 + side].data;
    for (int64_t b = 0; b < B; ++b) {
      const auto position = static_cast<int64_t>(in[3].data[b]);
      for (int64_t head = 0; head < K; ++head) {
        if (const auto row = cached.at(b, head, position))
          std::copy_n(&in[1 + side].data[(b * K + head) * D], D, &out[1 + side].data[*row]);
      }
    }
  }
  for (int64_t b = 0; b < B; ++b) {
    const auto position = static_cast<int64_t>(in[3].data[b]);
    for (int64_t h = 0; h < H; ++h) {
      const int64_t kv_head = h / (H / K);
      // A token before the new one is in the cache.
      const auto row_of = [&](int side, int64_t j) {
        if (j == position) return &in[1 + side].data[(b * K + kv_head) * D];
        return &out[1 + side].data[cached.at(b, kv_head, j).value()];
      };
      std::vector<double> weight(M);
      double sum = 0;
      for (int64_t j = 0; j <= position; ++j) {
        if (!sees(rules, M, 0, position, j)) continue;
        double score = 0;
        for (int64_t d = 0; d < D; ++d) score += scale * q.data[(b * H + h) * D + d] * row_of(0, j)[d];
        if (rules.softcap > 0) score = rules.softcap * std::tanh(score / rules.softcap);
        weight[j] = std::exp(score);
        sum += weight[j];
      }
      for (int64_t d = 0; d < D; ++d) {
        double mixed = 0;
        for (int64_t j = 0; j <= position; ++j) mixed += weight[j] / sum * row_of(1, j)[d];
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
