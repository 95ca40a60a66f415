// Grouped-query attention: one packed projection, optional query/key norms, rope, attention, output
// projection.
#include <cmath>

#include "models/blocks.h"

namespace hydrac::models {

namespace {

std::optional<ops::RopeScaling> scaling_of(const spec::Model& m) {
  const spec::RopeScaling& s = m.rope_scaling;
  if (s.factor == 1) return std::nullopt;
  return ops::RopeScaling{s.factor, s.low_freq_factor, s.high_freq_factor,
                          static_cast<double>(s.original_max_position_embeddings)};
}

// Query or key heads on their way from the projection to attention.
Use positioned(ops::RegionBuilder& b, const Build& build, Use x, ir::ValueId norm_weight,
               const std::string& name) {
  const spec::Model& m = build.model.spec.model;
  if (m.qk_norm) {
    b.enter("norm", "model.qk_norm");
    x = ops::rmsnorm(b, x, build.layer(norm_weight), m.norm_eps, name + "_normed");
  }
  if (m.position == spec::Position::rope) {
    b.enter("rope", "model.position");
    const Interface& io = build.model.interface;
    x = ops::rope(b, x, build.fixed(io.rope_cos), build.fixed(io.rope_sin), m.rope_theta, scaling_of(m),
                  name + "_rotated", build.positions());
  }
  return x;
}

// A window that hides nothing is none, so that the kernels are those of the causal mask.
ops::AttentionRules rules_of(const Build& build) {
  const spec::Spec& spec = build.model.spec;
  const spec::Model& m = spec.model;
  using Mask = ops::AttentionRules::Mask;
  ops::AttentionRules rules;
  rules.softcap = m.attention_softcap;
  if (m.attention_mask == spec::AttentionMask::none) rules.mask = Mask::full;
  if (spec::has_windows(spec)) {
    rules.mask = Mask::window;
    rules.window = m.sliding_window;
    rules.window_period = m.sliding_window_pattern;
  }
  rules.documents = build.documents().value != ir::kNoValue;
  return rules;
}

}  // namespace

Use attention_block(ops::RegionBuilder& b, const Build& build, Use x) {
  const spec::Model& m = build.model.spec.model;
  const Parameters& p = build.model.parameters;
  b.enter("qkv", "model.num_attention_heads");
  const Use qkv = ops::linear(b, x, build.layer(p.qkv_weight), optional(build.layer(p.qkv_bias)), "attn.qkv");
  const std::vector<Use> parts =
      ops::split_qkv(b, qkv, m.num_attention_heads, m.num_key_value_heads, m.head_dim, "attn");
  const Use q = positioned(b, build, parts[0], p.q_norm_weight, "attn.q");
  const Use k = positioned(b, build, parts[1], p.k_norm_weight, "attn.k");
  b.enter("attn", "optimizations.attention");
  const double dropout = build.training ? m.attention_dropout : 0;
  const double scale = 1 / std::sqrt(static_cast<double>(m.head_dim));
  const Use mixed = ops::attention(b, q, k, parts[2], scale, rules_of(build), dropout, build.randomness(),
                                   kAttentionSite, "attn.mixed", build.documents());
  b.enter("attn_out", "model.hidden_size");
  const Use out = ops::linear(b, mixed, build.layer(p.attn_out_weight),
                              optional(build.layer(p.attn_out_bias)), "attn.out");
  b.enter("residual", "model.dropout");
  return residual_dropout(b, build, out, kAttentionResidualSite, "attn.dropped");
}

}  // namespace hydrac::models
