// The list of attention's kinds, and what they share. A new kind adds its file, a line here and a word of
// AttentionKind.
#include "models/attention/attention.h"

#include <array>

#include "models/attention/kinds.h"

namespace hydrac::models {

namespace {

struct KindRow {
  spec::AttentionKind name;
  std::unique_ptr<Attention> (*declare)(Declarer&, const spec::Model&, double residual_deviation);
};

constexpr std::array kKinds = {
    KindRow{spec::AttentionKind::gqa, declare_gqa},
    KindRow{spec::AttentionKind::ccgqa, declare_ccgqa},
};
static_assert(spec::has_a_row_for_each_word(kKinds));

ir::Attributes angles_of(const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  const spec::RopeScaling& s = m.rope_scaling;
  ir::Attributes angles = {{"theta", spec::rope_base(spec)}};
  if (m.rope_local_theta > 0) angles["local_theta"] = m.rope_local_theta;
  if (!spec::scales_rope(m) || s.rope_type == spec::RopeType::dynamic) return angles;
  if (s.rope_type == spec::RopeType::longrope) {
    angles["pair_factors"] = spec::rope_pair_factors(spec);
    angles["attention_factor"] = s.attention_factor;
    return angles;
  }
  angles["factor"] = s.factor;
  const auto context = static_cast<double>(s.original_max_position_embeddings);
  if (s.rope_type == spec::RopeType::linear) angles["is_linear"] = true;
  if (s.rope_type != spec::RopeType::linear) angles["original_max_position_embeddings"] = context;
  if (s.rope_type == spec::RopeType::llama3) {
    angles["low_freq_factor"] = s.low_freq_factor;
    angles["high_freq_factor"] = s.high_freq_factor;
  }
  if (s.rope_type == spec::RopeType::yarn) {
    angles["beta_fast"] = s.beta_fast;
    angles["beta_slow"] = s.beta_slow;
    angles["truncate"] = s.truncate;
    angles["attention_factor"] = s.attention_factor;
  }
  return angles;
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

std::shared_ptr<const Attention> declare_attention(Declarer& declarer, const spec::Model& m,
                                                   double residual_deviation) {
  return kKinds[static_cast<size_t>(m.attention_kind)].declare(declarer, m, residual_deviation);
}

Use attention_block(ops::RegionBuilder& b, const Build& build, Use x) {
  const Parameters& p = build.model.parameters;
  const Use out = p.attention->mix(b, build, x);
  return branch_output(b, build, out, p.norms.attn_output, kAttentionResidualSite, "attn");
}

Use rotated(ops::RegionBuilder& b, const Build& build, Use x, const std::string& name) {
  const spec::Model& m = build.model.spec.model;
  if (m.position != spec::Position::rope) return x;
  b.enter("rope", "model.position");
  const Interface& io = build.model.interface;
  const auto pairs = m.rope_interleave ? ops::RopePairs::neighbours : ops::RopePairs::halves;
  return ops::rope(b, x, build.fixed(io.rope_cos), build.fixed(io.rope_sin),
                   {pairs, spec::rope_period(m), angles_of(build.model.spec)}, name, build.positions());
}

Use attend(ops::RegionBuilder& b, const Build& build, Use q, Use k, Use v) {
  const spec::Model& m = build.model.spec.model;
  const CacheInterface& io = build.model.interface.cache;
  const ir::InputPorts& inputs = build.model.graph.inputs;
  b.enter("attn", "optimizations.attention");
  const double dropout = build.trains() ? m.attention_dropout : 0;
  const ops::KeyCache cache{build.layer(io.keys), build.layer(io.values), build.fixed(inputs.page_table)};
  if (build.phase == Phase::prefill) ops::cache_append(b, k, v, cache, build.fixed(inputs.prompt_rows));
  if (build.phase == Phase::decode)
    return ops::attention_decode(
        b, q, k, v, cache,
        build.places_in_cache.value == ir::kNoValue ? build.positions() : build.places_in_cache,
        m.attention_scale, rules_of(build), "attn.mixed");
  return ops::attention(b, q, k, v, m.attention_scale, rules_of(build), dropout, build.randomness_of_rank(),
                        build.site(kAttentionSite), "attn.mixed", build.documents());
}

OutputProjection declare_output(Declarer& d, const spec::Model& m, double residual_deviation) {
  OutputProjection output;
  const ir::Dim C{m.hidden_size, "C"};
  const int64_t heads = m.num_attention_heads * m.head_dim;
  const int layers = static_cast<int>(m.num_hidden_layers);
  const bool is_square = heads == m.hidden_size && !d.divides();
  output.weight =
      d.matrix("attn.out.weight", {C, {heads, is_square ? "C" : "HD"}}, layers, residual_deviation,
               {{d.named("attn.out.weight")}}, true, Declarer::Division::columns);
  if (m.attention_output_bias) {
    output.bias = d.vector("attn.out.bias", C, layers, {ir::Init::Kind::zeros}, {{d.named("attn.out.bias")}});
    if (d.divides_stream()) d.mark_partial_gradient(output.bias);
  }
  return output;
}

Use OutputProjection::apply(ops::RegionBuilder& b, const Build& build, Use mixed) const {
  b.enter("attn_out", "model.hidden_size");
  return projected_from_parts(b, build, mixed, weight, bias, "attn.out");
}

}  // namespace hydrac::models
