#include "runtime/train/objective.h"

#include <cmath>
#include <numeric>

#include "runtime/data/hash.h"
#include "runtime/log/monotonic.h"
#include "runtime/train/generate.h"
#include "runtime/train/text_batches.h"

namespace hydrac::runtime {

namespace {

// What random numbers of a step are for.
enum Purpose : uint64_t { kPrompts, kReplies };

uint64_t key_of(const ObjectiveSettings& settings, int64_t step, Purpose purpose, uint64_t number = 0) {
  return Hash64()
      .add(settings.sampling.seed)
      .add(static_cast<uint64_t>(step))
      .add(uint64_t{purpose})
      .add(number)
      .value();
}

ReplyPlaces places_of(const ObjectiveSettings& settings, const Batch& batch) {
  const int64_t tokens = settings.sequence_len;
  ReplyPlaces places{static_cast<int64_t>(batch.tokens.size()) / tokens, tokens,
                     settings.prompt_tokens + settings.max_new_tokens, 0};
  const int64_t all = settings.prompts * settings.replies;
  places.batches = (all + places.of_a_batch() - 1) / places.of_a_batch();
  return places;
}

// Of one token whose log-probabilities differ by `log_ratio` = log p_base - log p: the estimate of KL(p,
// p_base) with the least variance that is never negative (Schulman's k3), and its derivative by the token's
// loss -log p.
struct TokenDivergence {
  explicit TokenDivergence(double log_ratio)
      : value(std::expm1(log_ratio) - log_ratio), by_loss(std::expm1(log_ratio)) {}
  double value, by_loss;
};

}  // namespace

std::optional<ObjectiveResult> ReplyObjective::begin_step(int64_t step, const std::vector<Batch>& data) {
  const ReplyPlaces places = places_of(settings_, data.at(0));
  const double began = monotonic_seconds();
  const std::vector<SampledReply> replies =
      sample(draw_prompts(data, places.tokens, settings_.prompts, key_of(settings_, step, kPrompts)), step);
  const double seconds = monotonic_seconds() - began;
  std::vector<Batch> batches = reply_batches(replies, places);
  std::optional<ObjectiveResult> result;
  if (!replies.empty()) result = weigh(replies, places, batches);
  if (result) result->seconds = seconds;
  for (const Batch& batch : batches) program_.micro_step(batch, 1);
  program_.discard_loss();
  return result;
}

std::vector<SampledReply> ReplyObjective::sample(const std::vector<std::vector<int32_t>>& prompts,
                                                 int64_t step) const {
  std::vector<SampledReply> replies;
  std::vector<TextRequest> requests;
  for (const std::vector<int32_t>& prompt : prompts) {
    for (int64_t r = 0; r < settings_.replies; ++r) {
      const auto number = static_cast<int64_t>(replies.size());
      replies.push_back({number, prompt, {}});
      requests.push_back({prompt, key_of(settings_, step, kReplies, static_cast<uint64_t>(number))});
    }
  }
  GenerateOptions options;
  options.max_new_tokens = settings_.max_new_tokens;
  options.sampling = settings_.sampling;
  options.end_tokens = settings_.end_tokens;
  options.interruptible = false;
  TextEvents events;
  events.on_end = [&](size_t request, const Reply& reply) {
    replies[request].reply = reply.ids;
    replies[request].text = reply.text;
  };
  generate_batch(program_, tokenizer_, requests, options, events);
  return replies;
}

void ReplyObjective::embed(std::span<const SampledReply> replies) {
  const TextShape shape = program_.text_shape();
  std::vector<EncodedText> texts;
  for (const SampledReply& reply : replies)
    texts.push_back({static_cast<int32_t>(reply.segment), settings_.encoder.ids(reply.text, shape.tokens)});
  for (const Batch& batch : text_batches(texts, shape, settings_.encoder.first_token)) program_.embed(batch);
}

std::vector<double> ReplyObjective::advantages(std::span<const SampledReply> replies,
                                               const ReplyDistances& distances,
                                               ObjectiveResult& result) const {
  const auto count = static_cast<size_t>(settings_.replies);
  std::vector<double> rewards;
  if (!settings_.reward.words.empty()) {
    std::vector<PromptReplies> sets;
    for (size_t r = 0; r < replies.size(); ++r) {
      if (r % count == 0) sets.push_back({tokenizer_.decode(replies[r].prompt), {}});
      sets.back().replies.push_back(replies[r].text);
    }
    rewards = rewards_of(settings_.reward, sets);
    result.reward =
        std::accumulate(rewards.begin(), rewards.end(), 0.0) / static_cast<double>(rewards.size());
  }
  std::vector<double> all;
  for (size_t first = 0; first < replies.size(); first += count) {
    const std::vector<double> of_set = rewards.empty()
                                           ? leave_one_out(std::span(distances.of_each).subspan(first, count))
                                           : standardized(std::span(rewards).subspan(first, count));
    all.insert(all.end(), of_set.begin(), of_set.end());
  }
  return all;
}

// With A the advantage of a reply, the loss is the mean over all sampled tokens of
//   weight * A * (-log p) + kl * KL(p, p_base),
// whose gradient is that of a sum of weighted losses of the tokens.
ObjectiveResult ReplyObjective::weigh(std::span<const SampledReply> replies, const ReplyPlaces& places,
                                      std::vector<Batch>& batches) {
  program_.clear_replies();
  std::vector<TargetLosses> losses;
  for (const Batch& batch : batches) losses.push_back(program_.score(batch));
  if (!settings_.encoder.weights.empty()) embed(replies);
  const ReplyDistances distances = program_.reply_distances();
  const auto count = static_cast<size_t>(settings_.replies), sets = replies.size() / count;
  ObjectiveResult result;
  for (size_t set = 0; set < sets; ++set)
    result.diversity += static_cast<double>(distances.mean[set]) / static_cast<double>(sets);
  const std::vector<ReplyTargets> targets = targets_of(replies, places);
  size_t tokens = 0;
  for (const ReplyTargets& of : targets) tokens += of.count;
  const std::vector<double> advantage = advantages(replies, distances, result);
  double divergence = 0;
  for (size_t r = 0; r < replies.size(); ++r) {
    const ReplyTargets& of = targets[r];
    for (size_t at = of.first; at < of.first + of.count; ++at) {
      double weight = settings_.weight * advantage[r];
      if (settings_.kl > 0) {
        const TargetLosses& both = losses[of.batch];
        const TokenDivergence from_base(static_cast<double>(both.own[at]) -
                                        static_cast<double>(both.base[at]));
        weight += settings_.kl * from_base.by_loss;
        divergence += from_base.value;
      }
      batches[of.batch].weights[at] = static_cast<float>(weight / static_cast<double>(tokens));
    }
  }
  result.reply_tokens = static_cast<double>(tokens) / static_cast<double>(replies.size());
  if (settings_.kl > 0) result.kl = divergence / static_cast<double>(tokens);
  return result;
}

}  // namespace hydrac::runtime
