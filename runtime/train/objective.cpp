#include "runtime/train/objective.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/data/hash.h"
#include "runtime/log/monotonic.h"
#include "runtime/parallel/ranks.h"
#include "runtime/train/generation/reply_scores.h"
#include "runtime/train/generation/text_batches.h"
#include "runtime/train/rank_exchange.h"

namespace hydrac::runtime {

namespace {

// Purposes of a step's random numbers.
enum Purpose : uint64_t { kPrompts, kReplies };

uint64_t key_of(const ObjectiveSettings& settings, int64_t step, Purpose purpose, uint64_t number = 0) {
  return Hash64()
      .add(settings.sampling.seed)
      .add(static_cast<uint64_t>(step))
      .add(uint64_t{purpose})
      .add(number)
      .value();
}

// Places of the replies to `prompts` prompts.
ReplyPlaces places_of(const ObjectiveSettings& settings, int64_t prompts, int64_t rows) {
  ReplyPlaces places{rows, settings.sequence_len, settings.prompt_tokens + settings.max_new_tokens, 0};
  const int64_t all = prompts * settings.replies;
  places.batches = (all + places.of_a_batch() - 1) / places.of_a_batch();
  return places;
}

// KL of one token with `log_ratio` = log p_base - log p: the estimate of KL(p, p_base) with the least
// variance that is never negative (Schulman's k3), and its derivative by the token's loss -log p.
struct TokenDivergence {
  explicit TokenDivergence(double log_ratio)
      : value(std::expm1(log_ratio) - log_ratio), by_loss(std::expm1(log_ratio)) {}
  double value, by_loss;
};

// A reply's contribution to the means over all replies. They are added up in the order of replies, so that
// the means do not depend on which rank sampled which.
struct ReplyNumbers {
  int64_t tokens = 0;
  double divergence = 0;
  double gap = 0;  // between sampling and scoring, over `known` tokens
  int64_t known = 0;
};

// Losses of the target at element `at` of their batch.
TokenDivergence divergence_of(const TargetLosses& losses, size_t at) {
  return TokenDivergence(static_cast<double>(losses.own[at]) - static_cast<double>(losses.base[at]));
}

ReplyNumbers numbers_of(const SampledReply& reply, const ReplyTargets& targets, const TargetLosses& losses) {
  ReplyNumbers numbers{static_cast<int64_t>(targets.count)};
  for (size_t i = 0; i < targets.count; ++i) {
    const size_t at = targets.first + i;
    if (!losses.base.empty()) numbers.divergence += divergence_of(losses, at).value;
    const double sampled = reply.log_probabilities[i];
    if (std::isnan(sampled)) continue;
    numbers.gap += std::abs(sampled + static_cast<double>(losses.own[at]));
    ++numbers.known;
  }
  return numbers;
}

ReplyNumbers sum_of(std::span<const ReplyNumbers> replies) {
  ReplyNumbers all;
  for (const ReplyNumbers& one : replies) {
    all.tokens += one.tokens;
    all.divergence += one.divergence;
    all.gap += one.gap;
    all.known += one.known;
  }
  return all;
}

}  // namespace

std::vector<Metric> ObjectiveResult::metrics() const {
  std::vector<Metric> all;
  const auto add = [&](MetricText text, std::optional<double> value) {
    text.group = "objective";
    if (value) all.push_back({std::move(text), *value});
  };
  add({.name = "reward", .label = "reward", .decimals = 3, .importance = 4}, reward);
  add({.name = "diversity", .label = "diversity", .decimals = 3, .importance = 3}, diversity);
  add({.name = "kl"}, kl);
  add({.name = "reply_tokens"}, reply_tokens);
  add({.name = "sampling_gap"}, sampling_gap);
  return all;
}

std::optional<ObjectiveResult> ReplyObjective::begin_step(int64_t step, const std::vector<Batch>& data) {
  const int64_t rows = static_cast<int64_t>(data.at(0).tokens.size()) / settings_.sequence_len;
  return answer(
      step, draw_prompts(data, settings_.sequence_len, settings_.prompts, key_of(settings_, step, kPrompts)),
      rows);
}

std::optional<ObjectiveResult> ReplyObjective::answer(int64_t step,
                                                      const std::vector<std::vector<int32_t>>& prompts,
                                                      int64_t rows) {
  const int64_t share = settings_.prompts / (ranks_ ? ranks_->size(RankGroup::data) : 1);
  const ReplyPlaces places = places_of(settings_, share, rows);
  Answers answers;
  answers.all_sets = std::ssize(prompts);
  answers.first_set = std::min((ranks_ ? ranks_->rank(RankGroup::data) : 0) * share, answers.all_sets);
  const auto own = std::span(prompts).subspan(static_cast<size_t>(answers.first_set));
  const double began = monotonic_seconds();
  answers.replies =
      sample(own.first(std::min(own.size(), static_cast<size_t>(share))), answers.first_set, step);
  const double sampled = monotonic_seconds();
  std::vector<Batch> batches = reply_batches(answers.replies, places);
  std::optional<ObjectiveResult> result;
  if (!prompts.empty()) {
    result = weigh(answers, places, batches);
    const double seconds = sampled - began;
    result->seconds = std::ranges::max(joined<double>(ranks_, std::span(&seconds, 1)));
  }
  work_.scoring_seconds = monotonic_seconds() - sampled;
  program_.begin_replies();
  for (const Batch& batch : batches) program_.micro_step(batch, 1);
  program_.end_replies();
  return result;
}

// A reply's random numbers are those of its number among all ranks'.
std::vector<SampledReply> ReplyObjective::sample(std::span<const std::vector<int32_t>> prompts,
                                                 int64_t first_set, int64_t step) {
  std::vector<SampledReply> replies;
  std::vector<TextRequest> requests;
  for (const std::vector<int32_t>& prompt : prompts) {
    for (int64_t r = 0; r < settings_.replies; ++r) {
      const auto segment = std::ssize(replies);
      replies.push_back({segment, prompt, {}});
      const auto number = static_cast<uint64_t>(first_set * settings_.replies + segment);
      requests.push_back({prompt, key_of(settings_, step, kReplies, number)});
    }
  }
  GenerateOptions options;
  options.max_new_tokens = settings_.max_new_tokens;
  options.sampling = settings_.sampling;
  options.log_probabilities = true;
  options.interruptible = false;
  TextEvents events;
  events.on_end = [&](size_t request, const Reply& reply) {
    replies[request].reply = reply.ids;
    replies[request].text = reply.text;
    replies[request].log_probabilities = reply.log_probabilities;
  };
  work_.sampling = generate_batch(program_, tokenizer_, requests, options, events);
  return replies;
}

void ReplyObjective::embed(std::span<const SampledReply> replies) {
  const TextShape shape = program_.facts().texts;
  std::vector<EncodedText> texts;
  for (const SampledReply& reply : replies)
    texts.push_back({static_cast<int32_t>(reply.segment), settings_.encoder.ids(reply.text, shape.tokens)});
  for (const Batch& batch : text_batches(texts, shape, settings_.encoder.first_token))
    runtime::embed(program_, batch);
}

// One command a step sees the replies of all ranks.
std::vector<double> ReplyObjective::rewards(const Answers& answers) const {
  std::vector<PromptReplies> sets;
  for (const SampledReply& reply : answers.replies) {
    if (reply.segment % settings_.replies == 0) sets.push_back({tokenizer_.decode(reply.prompt), {}});
    sets.back().replies.push_back(reply.text);
  }
  const std::string lines = joined(ranks_, json_lines(sets));
  const auto replies = static_cast<size_t>(answers.all_sets * settings_.replies);
  return found_by_rank_0(ranks_, [&] { return rewards_of(settings_.reward, lines, replies); });
}

std::vector<double> ReplyObjective::advantages(const Answers& answers, const ReplyDistances& distances,
                                               ObjectiveResult& result) const {
  const auto count = static_cast<size_t>(settings_.replies);
  std::vector<double> rewarded;
  if (!settings_.reward.words.empty()) {
    rewarded = rewards(answers);
    result.reward =
        std::accumulate(rewarded.begin(), rewarded.end(), 0.0) / static_cast<double>(rewarded.size());
  }
  const size_t before = static_cast<size_t>(answers.first_set) * count;  // replies of other ranks
  std::vector<double> all;
  for (size_t first = 0; first < answers.replies.size(); first += count) {
    const std::vector<double> of_set = rewarded.empty()
                                           ? leave_one_out(std::span(distances.of_each).subspan(first, count))
                                           : standardized(std::span(rewarded).subspan(before + first, count));
    all.insert(all.end(), of_set.begin(), of_set.end());
  }
  return all;
}

// A is the advantage of a reply. The loss is the mean over all sampled tokens of
//   weight * A * (-log p) + kl * KL(p, p_base),
// Its gradient is that of a sum of weighted losses of the tokens.
ObjectiveResult ReplyObjective::weigh(const Answers& answers, const ReplyPlaces& places,
                                      std::vector<Batch>& batches) {
  const std::vector<SampledReply>& replies = answers.replies;
  clear_replies(program_);
  std::vector<TargetLosses> losses;
  for (const Batch& batch : batches) losses.push_back(score(program_, batch));
  if (!settings_.encoder.weights.empty()) embed(replies);
  const ReplyDistances distances = reply_distances(program_);
  const size_t own_sets = replies.size() / static_cast<size_t>(settings_.replies);
  ObjectiveResult result;
  for (const float of_set : joined<float>(ranks_, std::span(distances.mean).first(own_sets)))
    result.diversity += static_cast<double>(of_set) / static_cast<double>(answers.all_sets);
  const std::vector<ReplyTargets> targets = targets_of(replies, places);
  std::vector<ReplyNumbers> numbers;
  for (size_t r = 0; r < replies.size(); ++r)
    numbers.push_back(numbers_of(replies[r], targets[r], losses[targets[r].batch]));
  const ReplyNumbers all = sum_of(joined<ReplyNumbers>(ranks_, numbers));
  const auto tokens = static_cast<double>(all.tokens);
  result.reply_tokens = tokens / static_cast<double>(answers.all_sets * settings_.replies);
  if (settings_.kl > 0) result.kl = all.divergence / tokens;
  if (all.known > 0) result.sampling_gap = all.gap / static_cast<double>(all.known);
  const std::vector<double> advantage = advantages(answers, distances, result);
  for (size_t r = 0; r < replies.size(); ++r) {
    const ReplyTargets& of = targets[r];
    for (size_t at = of.first; at < of.first + of.count; ++at) {
      double weight = settings_.weight * advantage[r];
      if (settings_.kl > 0) weight += settings_.kl * divergence_of(losses[of.batch], at).by_loss;
      batches[of.batch].weights[at] = static_cast<float>(weight / tokens);
    }
  }
  return result;
}

}  // namespace hydrac::runtime
