// Refusals for objectives that learn from pairs of completions.
#include <fmt/format.h>

#include "spec/checks/check.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

struct PairRefusal {
  bool applies;
  const char* key;
  std::string what, instead;
};

std::vector<PairRefusal> pair_refusals(const SpecKeys& spec) {
  const auto& data = spec.data;
  const bool is_chat = data.format == DataFormat::chat;
  const auto& t = spec.train;
  return {
      {spec.model.head != Head::language_model, "model.head",
       fmt::format("pairs are texts, and the head is {}", to_string(spec.model.head)), "remove objective"},
      {!is_chat, "data.format", fmt::format("data of format {} has no pairs", to_string(data.format)),
       "write data.format: chat, with JSONL of prompt, chosen and rejected"},
      {is_chat && data.train_on != TrainOn::replies, "data.train_on",
       "with train_on: all nothing says where a prompt ends", "write train_on: replies"},
      {is_chat && !data.document_mask, "data.document_mask",
       "without document_mask a text would be scored beside others of its sequence",
       "write document_mask: true"},
      {data.too_long == TooLong::cut, "data.too_long", "a pair that is cut compares other texts",
       "write too_long: drop"},
      {!data.mix.empty(), "data.mix", "the pairs of a mixture have no numbers of their own",
       "write data.path"},
      {!data.val.empty(), "data.val", "the pairs of several sets have no numbers of their own",
       "write data.val_path"},
      {data.curriculum.steps > 0, "data.curriculum.steps",
       "pairs are scored once an epoch, and a curriculum draws them at random", "remove data.curriculum"},
      {t.optimizer.learning_rate.automatic, "train.optimizer.learning_rate",
       "the range test of learning_rate: auto learns from no pairs", "write a learning rate"},
      {t.label_smoothing > 0, "train.label_smoothing", "smoothed losses of tokens are no log-probabilities",
       "write objective.label_smoothing, or label_smoothing: 0"},
      {spec.optimizations.loss != LossKernel::materialized, "optimizations.loss",
       "a pair's loss needs all tokens of both texts before the gradient of one", "write loss: materialized"},
  };
}

}  // namespace

void check_preferences(Draft& draft) {
  if (!draft.usable({"objective.name"}) || !learns_preferences(draft.spec)) return;
  for (const PairRefusal& refusal : pair_refusals(draft.spec))
    if (refusal.applies && draft.usable({refusal.key}))
      draft.report(Kind::objective_unsupported, {refusal.key, "objective.name"}, refusal.what,
                   refusal.instead);
}

}  // namespace hydrac::spec
