// Grouped-query attention: one packed projection, optional query/key norms, rope, attention, output
// projection.
#include "models/attention/kinds.h"

namespace hydrac::models {

namespace {

class GroupedQueryAttention final : public Attention {
 public:
  GroupedQueryAttention(Declarer&, const spec::Model&, double residual_deviation);
  Use mix(ops::RegionBuilder&, const Build&, Use x) const override;

 private:
  ir::ValueId qkv_weight_ = ir::kNoValue, qkv_bias_ = ir::kNoValue;  // [(H+2K)D, C]: queries, keys, values
  ir::ValueId q_norm_weight_ = ir::kNoValue, k_norm_weight_ = ir::kNoValue;  // [D]
  OutputProjection output_;
};

GroupedQueryAttention::GroupedQueryAttention(Declarer& d, const spec::Model& m, double residual_deviation) {
  const int layers = static_cast<int>(m.num_hidden_layers);
  const int64_t q = m.num_attention_heads * m.head_dim, kv = m.num_key_value_heads * m.head_dim;
  const ir::Dim packed{q + 2 * kv, q == kv ? "3HD" : "(H+2K)D"};
  const auto names = [&](const std::string& suffix) {
    if (m.packed_weights == spec::PackedWeights::qkv_by_head)
      return std::vector<Declarer::Names>{{d.named("attn.q." + suffix), 0, q + 2 * kv}};
    return std::vector<Declarer::Names>{{d.named("attn.q." + suffix), 0, q},
                                        {d.named("attn.k." + suffix), q, kv},
                                        {d.named("attn.v." + suffix), q + kv, kv}};
  };
  qkv_weight_ = d.matrix("attn.qkv.weight", {packed, {m.hidden_size, "C"}}, layers, m.initializer_range,
                         names("weight"), true, Declarer::Division::rows);
  if (m.attention_bias)
    qkv_bias_ = d.vector("attn.qkv.bias", packed, layers, {ir::Init::Kind::zeros}, names("bias"), {},
                         Declarer::Division::rows);
  if (m.qk_norm) {
    const bool is_whole = m.qk_norm_scope == spec::QkNormScope::projection;
    const ir::Dim D{m.head_dim, "D"};
    const auto weight = [&](const std::string& name, const ir::Dim& width) {
      return d.vector(name, is_whole ? width : D, layers, norm_start(m), {{d.named(name)}});
    };
    q_norm_weight_ = weight("attn.q_norm.weight", {q, "HD"});
    k_norm_weight_ = weight("attn.k_norm.weight", {kv, q == kv ? "HD" : "KD"});
    for (const ir::ValueId weight : {q_norm_weight_, k_norm_weight_}) d.mark_partial_gradient(weight);
  }
  output_ = declare_output(d, m, residual_deviation);
}

bool norms_projections(const spec::Model& m) {
  return m.qk_norm && m.qk_norm_scope == spec::QkNormScope::projection;
}

// Query or key heads on their way from the projection to attention. Those that are normed together have no
// dimension of their own before that.
Use positioned(ops::RegionBuilder& b, const Build& build, Use x, ir::ValueId norm_weight,
               const std::string& name, const std::string& heads) {
  const spec::Model& m = build.model.spec.model;
  if (m.qk_norm) {
    b.enter("norm", "model.qk_norm");
    x = ops::rmsnorm(b, x, build.layer(norm_weight), m.norm_eps, name + "_normed", m.norm_offset);
  }
  if (norms_projections(m)) x = ops::heads_of(b, x, m.head_dim, heads, name + "_heads");
  return rotated(b, build, x, name + "_rotated");
}

Use GroupedQueryAttention::mix(ops::RegionBuilder& b, const Build& build, Use x) const {
  const spec::Model& m = build.model.spec.model;
  b.enter("qkv", "model.num_attention_heads");
  const int64_t ranks = build.tensor_ranks();
  const Use qkv = projected_to_parts(b, build, x, qkv_weight_, qkv_bias_, "attn.qkv");
  const int64_t heads = m.num_attention_heads / ranks;
  const auto split = norms_projections(m) ? ops::split_flat_qkv : ops::split_qkv;
  const std::vector<Use> parts =
      m.packed_weights == spec::PackedWeights::qkv_by_head
          ? ops::split_qkv_by_head(b, qkv, heads, m.head_dim, "attn")
          : split(b, qkv, heads, m.num_key_value_heads / ranks, m.head_dim, "attn");
  const std::string k_heads = m.num_key_value_heads == m.num_attention_heads ? "H" : "K";
  const Use q = positioned(b, build, parts[0], q_norm_weight_, "attn.q", "H");
  const Use k = positioned(b, build, parts[1], k_norm_weight_, "attn.k", k_heads);
  return output_.apply(b, build, attend(b, build, q, k, parts[2]));
}

}  // namespace

std::unique_ptr<Attention> declare_gqa(Declarer& declarer, const spec::Model& m, double residual_deviation) {
  return std::make_unique<GroupedQueryAttention>(declarer, m, residual_deviation);
}

}  // namespace hydrac::models
