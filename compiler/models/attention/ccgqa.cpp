// Compressed convolutional grouped-query attention (arXiv 2510.04476): attention in a latent space of H heads
// of D, narrower than the stream. Queries and keys pass two causal convolutions over time, the first within
// each head and the second over all of them. To each is added half of the mean of the other's heads, as the
// projection made them. Both are brought to unit length, keys times a learned temperature. The second half of
// the values' width is that of the token before. model.ccgqa switches each of these.
#include <cmath>

#include "models/attention/kinds.h"

namespace hydrac::models {

namespace {

// Queries, or keys.
struct Side {
  std::string name;                                // "attn.q"
  ir::Dim heads, width;                            // H, HD
  int64_t first_column = 0;                        // in the projection
  ir::ValueId channel_conv_weight = ir::kNoValue;  // [taps HD, HD], tap 0, the token itself, first
};

struct QueriesAndKeys {
  Use q, k;
};

class CompressedAttention final : public Attention {
 public:
  CompressedAttention(Declarer&, const spec::Model&, double residual_deviation);
  Use mix(ops::RegionBuilder&, const Build&, Use x) const override;

 private:
  void declare_convolutions(Declarer&, const spec::Model&);
  QueriesAndKeys convolve(ops::RegionBuilder&, const Build&, Use qkv, QueriesAndKeys) const;
  QueriesAndKeys convolve_heads(ops::RegionBuilder&, const Build&, Use qkv) const;
  Use convolve_channels(ops::RegionBuilder&, const Build&, Use x, const Side&) const;
  std::vector<Use> convolved(ops::RegionBuilder&, const Build&, Use x, Use weight, const std::string& name,
                             const std::vector<ops::TapSums>& parts) const;
  QueriesAndKeys couple(ops::RegionBuilder&, QueriesAndKeys, QueriesAndKeys projected) const;
  QueriesAndKeys normalize(ops::RegionBuilder&, const Build&, QueriesAndKeys) const;

  const spec::Model::Ccgqa options_;
  Side queries_, keys_;
  ir::Dim head_dim_, packed_;
  ir::ValueId qkv_weight_ = ir::kNoValue;        // [(H+2K)D, C]: queries, keys, values
  ir::ValueId head_conv_weight_ = ir::kNoValue;  // [taps (H+K)D, D]: a matrix of each tap and head
  ir::ValueId temperature_ = ir::kNoValue;       // [1]
  OutputProjection output_;
};

CompressedAttention::CompressedAttention(Declarer& d, const spec::Model& m, double residual_deviation)
    : options_(m.ccgqa), head_dim_{m.head_dim, "D"} {
  const int64_t H = m.num_attention_heads, K = m.num_key_value_heads, D = m.head_dim;
  const int layers = static_cast<int>(m.num_hidden_layers);
  queries_ = {"attn.q", {H, "H"}, {H * D, "HD"}, 0};
  keys_ = {"attn.k", {K, K == H ? "H" : "K"}, {K * D, K == H ? "HD" : "KD"}, H * D};
  packed_ = {(H + 2 * K) * D, K == H ? "3HD" : "(H+2K)D"};
  const std::string at = "model.layers.{}.self_attn.";
  // The halves of the values are projections of their own in a checkpoint: one is of the token before.
  const int64_t half = K * D / 2, values = (H + K) * D;
  std::vector<Declarer::Names> names = {{at + "q_proj.weight", 0, H * D},
                                        {at + "k_proj.weight", H * D, K * D}};
  if (options_.value_shift) {
    names.push_back({at + "v_now_proj.weight", values, half});
    names.push_back({at + "v_shift_proj.weight", values + half, half});
  } else {
    names.push_back({at + "v_proj.weight", values, K * D});
  }
  qkv_weight_ =
      d.matrix("attn.qkv.weight", {packed_, {m.hidden_size, "C"}}, layers, m.initializer_range, names);
  declare_convolutions(d, m);
  if (options_.l2_norm && options_.temperature) {
    const ir::Init start{ir::Init::Kind::constant, std::sqrt(static_cast<double>(D))};
    temperature_ = d.vector("attn.temperature", {1, ""}, layers, start, {{at + "temperature"}});
  }
  output_ = declare_output(d, m, residual_deviation);
}

void CompressedAttention::declare_convolutions(Declarer& d, const spec::Model& m) {
  const int layers = static_cast<int>(m.num_hidden_layers);
  const int64_t taps = options_.conv_kernel;
  const std::string at = "model.layers.{}.self_attn.";
  const ir::Dim both{queries_.width.size + keys_.width.size, keys_.heads.symbol == "H" ? "2HD" : "(H+K)D"};
  const auto of_taps = [&](const ir::Dim& width) {
    return ir::Dim{taps * width.size, std::to_string(taps) + width.symbol};
  };
  if (options_.head_conv)
    head_conv_weight_ = d.matrix("attn.head_conv.weight", {of_taps(both), head_dim_}, layers,
                                 m.initializer_range, {{at + "head_conv.weight"}}, false);
  if (!options_.channel_conv) return;
  for (auto& [side, name] : {std::pair<Side&, const char*>{queries_, "q_conv"}, {keys_, "k_conv"}}) {
    side.channel_conv_weight =
        d.matrix(std::string("attn.") + name + ".weight", {of_taps(side.width), side.width}, layers,
                 m.initializer_range, {{at + name + ".weight"}}, false);
  }
}

// The convolution over time with `weight` [taps * out, in], its channels in parts.
std::vector<Use> CompressedAttention::convolved(ops::RegionBuilder& b, const Build& build, Use x, Use weight,
                                                const std::string& name,
                                                const std::vector<ops::TapSums>& parts) const {
  const int64_t taps = options_.conv_kernel;
  const Use products = ops::linear(b, x, weight, {}, name + ".taps");
  const WithEarlier all = with_earlier(b, build, products, taps - 1, name + ".taps");
  return ops::sum_taps(b, all.rows, taps, parts, all.before, build.documents());
}

// Both sides at once: their heads are groups of one convolution. The values' columns are no part of it.
QueriesAndKeys CompressedAttention::convolve_heads(ops::RegionBuilder& b, const Build& build, Use qkv) const {
  b.enter("attn", "model.ccgqa.head_conv");
  const Use matrix =
      ops::block_diagonal(b, build.layer(head_conv_weight_), queries_.heads.size + keys_.heads.size, packed_,
                          0, "attn.head_conv");
  const auto shape = [&](const Side& side) {
    return options_.channel_conv ? ir::Shape{side.width} : ir::Shape{side.heads, head_dim_};
  };
  const std::vector<Use> sums =
      convolved(b, build, qkv, matrix, "attn.head_conv",
                {{"attn.q_head_conv", shape(queries_)}, {"attn.k_head_conv", shape(keys_)}});
  return {sums[0], sums[1]};
}

// `x`: the side's channels alone, or, without the convolution of heads, the whole projection.
Use CompressedAttention::convolve_channels(ops::RegionBuilder& b, const Build& build, Use x,
                                           const Side& side) const {
  b.enter("attn", "model.ccgqa.channel_conv");
  Use weight = build.layer(side.channel_conv_weight);
  if (!options_.head_conv)
    weight = ops::block_diagonal(b, weight, 1, packed_, side.first_column, side.name + "_conv.matrix");
  const std::string name = side.name + "_conv";
  return convolved(b, build, x, weight, name, {{name, {side.heads, head_dim_}}})[0];
}

QueriesAndKeys CompressedAttention::convolve(ops::RegionBuilder& b, const Build& build, Use qkv,
                                             QueriesAndKeys x) const {
  if (options_.head_conv) x = convolve_heads(b, build, qkv);
  if (!options_.channel_conv) return x;
  return {convolve_channels(b, build, options_.head_conv ? x.q : qkv, queries_),
          convolve_channels(b, build, options_.head_conv ? x.k : qkv, keys_)};
}

// As many keys as queries: each adds half of the sum of its query and its key.
QueriesAndKeys CompressedAttention::couple(ops::RegionBuilder& b, QueriesAndKeys x,
                                           QueriesAndKeys projected) const {
  b.enter("attn", "model.ccgqa.qk_mean");
  Use to_q, to_k;
  if (queries_.heads.size == keys_.heads.size) {
    const Use half_q = ops::scale_heads(b, projected.q, queries_.heads, 0.5, "attn.half_q");
    const Use half_k = ops::scale_heads(b, projected.k, queries_.heads, 0.5, "attn.half_k");
    to_q = to_k = ops::add(b, half_q, half_k, "attn.qk_mean");
  } else {
    const auto mean = [&](Use heads, const Side& side) {
      return ops::head_sum(b, heads, 1.0 / static_cast<double>(side.heads.size), side.name + "_mean");
    };
    to_q = ops::scale_heads(b, mean(projected.k, keys_), queries_.heads, 0.5, "attn.half_k_mean");
    to_k = ops::scale_heads(b, mean(projected.q, queries_), keys_.heads, 0.5, "attn.half_q_mean");
  }
  return {ops::add(b, x.q, to_q, "attn.q_coupled"), ops::add(b, x.k, to_k, "attn.k_coupled")};
}

QueriesAndKeys CompressedAttention::normalize(ops::RegionBuilder& b, const Build& build,
                                              QueriesAndKeys x) const {
  b.enter("norm", "model.ccgqa.l2_norm");
  return {ops::l2norm(b, x.q, {}, "attn.q_unit"),
          ops::l2norm(b, x.k, optional(build.layer(temperature_)), "attn.k_unit")};
}

Use CompressedAttention::mix(ops::RegionBuilder& b, const Build& build, Use x) const {
  b.enter("qkv", "model.ccgqa.compression");
  const Use qkv = projected(b, build, x, qkv_weight_, ir::kNoValue, "attn.qkv");
  const std::vector<Use> parts =
      ops::split_qkv(b, qkv, queries_.heads.size, keys_.heads.size, head_dim_.size, "attn");
  const QueriesAndKeys projected{parts[0], parts[1]};
  QueriesAndKeys qk = convolve(b, build, qkv, projected);
  if (options_.qk_mean) qk = couple(b, qk, projected);
  if (options_.l2_norm) qk = normalize(b, build, qk);
  qk = {rotated(b, build, qk.q, "attn.q_rotated"), rotated(b, build, qk.k, "attn.k_rotated")};
  Use v = parts[2];
  if (options_.value_shift) {
    b.enter("attn", "model.ccgqa.value_shift");
    const WithEarlier all = with_earlier(b, build, v, 1, "attn.v");
    v = ops::value_shift(b, all.rows, "attn.v_shifted", all.before, build.documents());
  }
  return output_.apply(b, build, attend(b, build, qk.q, qk.k, v));
}

}  // namespace

std::unique_ptr<Attention> declare_ccgqa(Declarer& declarer, const spec::Model& m,
                                         double residual_deviation) {
  return std::make_unique<CompressedAttention>(declarer, m, residual_deviation);
}

}  // namespace hydrac::models
