#include "models/head.h"

#include "models/blocks.h"
#include "models/declarer.h"

namespace hydrac::models {

HeadParameters declare_head(Declarer& d, const spec::Model& m, int64_t vocab, ValueId token_embedding) {
  const ir::Dim C{m.hidden_size, "C"}, outputs{m.num_labels, "O"};
  const double deviation = m.initializer_range;
  if (m.head != spec::Head::language_model)
    return {d.matrix("head.weight", {outputs, C}, 1, deviation, {{"score.weight"}}, false),
            d.vector("head.bias", outputs, 1, {ir::Init::Kind::zeros}, {{"score.bias"}})};
  HeadParameters p{token_embedding};
  if (!m.tie_word_embeddings)
    p.weight = d.matrix("head.weight", {{vocab, "V"}, C}, 1, deviation,
                        {{d.named("head.weight"), 0, m.vocab_size}}, false, Declarer::Division::vocabulary);
  if (m.head_bias)
    p.bias = d.vector("head.bias", {vocab, "V"}, 1, {ir::Init::Kind::zeros},
                      {{d.named("head.bias"), 0, m.vocab_size}}, {}, Declarer::Division::vocabulary);
  return p;
}

Use head(ops::RegionBuilder& b, const Build& build, Use hidden, Use into) {
  const HeadParameters& p = build.model.parameters.head;
  b.enter("head", "model.head");
  const bool has_parts = build.model.spec.model.head == spec::Head::language_model;
  hidden = whole_rows(b, build, hidden, has_parts, "head_input");
  // The factor of narrow rows is cheaper than the factor of logits.
  if (const double scale = build.model.spec.model.logit_scale; scale != 1) {
    b.asked_for_by("model.logit_scale");
    hidden = ops::scale(b, hidden, scale, "head_input.scaled");
  }
  b.asked_for_by("model.head");
  if (into.value != ir::kNoValue) b.into(into);
  return ops::linear(b, hidden, build.fixed(p.weight), optional(build.fixed(p.bias)), "logits",
                     has_parts && !build.divides_stream() ? build.tensor_ranks() : 1);
}

Use loss_rows(ops::RegionBuilder& b, const Build& build, Use predictions, double label_smoothing) {
  const Use targets = build.fixed(build.model.graph.inputs.any_targets());
  if (const auto& own = build.model.spec.train.loss.function) {
    b.enter("loss", "train.loss");
    return ops::pointwise_loss(b, own->lifted, predictions, targets, "loss_rows");
  }
  b.enter("loss", "optimizations.loss");
  if (build.model.spec.model.head == spec::Head::regression)
    return ops::mse(b, predictions, targets, "loss_rows");
  const spec::Model& m = build.model.spec.model;
  if (m.head == spec::Head::language_model && build.tensor_ranks() > 1)
    return ops::cross_entropy_of_ranks(
        b, predictions, targets,
        {build.tensor_ranks(), m.vocab_size, optional(build.fixed(build.model.graph.state.own_classes))},
        m.logit_softcap, label_smoothing, "loss_rows");
  const int64_t classes = m.head == spec::Head::language_model ? m.vocab_size : m.num_labels;
  return ops::cross_entropy(b, predictions, targets, classes, m.logit_softcap, label_smoothing, "loss_rows");
}

}  // namespace hydrac::models
