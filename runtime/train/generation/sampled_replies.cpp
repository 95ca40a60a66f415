#include "runtime/train/generation/sampled_replies.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "runtime/data/epoch_windows.h"

namespace hydrac::runtime {

namespace {

void collect_prompts(const Batch& batch, int64_t tokens, std::vector<std::vector<int32_t>>& prompts) {
  const auto length = static_cast<size_t>(tokens);
  for (size_t row = 0; row < batch.tokens.size(); row += length) {
    for (size_t begin = 0, end = 0; begin < length; begin = end) {
      end = static_cast<size_t>(batch.documents[2 * (row + begin) + 1]);
      const auto first = batch.targets.begin() + static_cast<std::ptrdiff_t>(row + begin),
                 last = batch.targets.begin() + static_cast<std::ptrdiff_t>(row + end);
      const auto learned = std::find_if(first, last, [](int32_t target) { return target != kIgnoredTarget; });
      if (learned == last) continue;  // what is left of a row, which is no item
      const auto text = batch.tokens.begin() + static_cast<std::ptrdiff_t>(row + begin);
      prompts.emplace_back(text, text + (learned - first) + 1);
    }
  }
}

Batch empty_batch(const ReplyPlaces& places) {
  const auto count = static_cast<size_t>(places.rows * places.tokens);
  Batch batch;
  batch.tokens.assign(count, 0);
  batch.targets.assign(count, kIgnoredTarget);
  batch.documents.resize(2 * count);
  batch.positions.resize(count);
  batch.weights.assign(count, 0);
  batch.segments.assign(count, -1);
  return batch;
}

struct ReplyPlace {
  size_t batch = 0, row = 0;  // the row's first element
  int64_t begin = 0;          // in the row
};

ReplyPlace place_of(int64_t segment, const ReplyPlaces& places) {
  const int64_t in_batch = segment % places.of_a_batch();
  return {static_cast<size_t>(segment / places.of_a_batch()),
          static_cast<size_t>(in_batch / places.of_a_row() * places.tokens),
          in_batch % places.of_a_row() * places.longest};
}

void fill(const SampledReply& from, const ReplyPlace& place, const ReplyPlaces& places, Batch& batch) {
  const auto prompt = static_cast<int64_t>(from.prompt.size()),
             reply = static_cast<int64_t>(from.reply.size());
  if (prompt + reply > places.longest) throw std::logic_error("a reply is longer than its place");
  const size_t first = place.row + static_cast<size_t>(place.begin);
  const auto at = static_cast<std::ptrdiff_t>(first);
  std::ranges::copy(from.prompt, batch.tokens.begin() + at);
  std::ranges::copy(from.reply, batch.tokens.begin() + at + prompt);
  std::ranges::copy(from.reply, batch.targets.begin() + at + prompt - 1);
  std::fill_n(batch.segments.begin() + at + prompt, reply, static_cast<int32_t>(from.segment));
  batch.target_count += reply;
  add_document(batch, place.row, place.begin, place.begin + prompt + reply);
  add_document(batch, place.row, place.begin + prompt + reply, place.begin + places.longest);
}

}  // namespace

void add_document(Batch& batch, size_t row, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const size_t at = row + static_cast<size_t>(i);
    batch.documents[2 * at] = static_cast<int32_t>(begin);
    batch.documents[2 * at + 1] = static_cast<int32_t>(end);
    batch.positions[at] = static_cast<int32_t>(i - begin);
  }
}

std::vector<std::vector<int32_t>> draw_prompts(const std::vector<Batch>& step, int64_t tokens, int64_t most,
                                               uint64_t key) {
  std::vector<std::vector<int32_t>> all, drawn;
  for (const Batch& batch : step) collect_prompts(batch, tokens, all);
  const auto count = static_cast<int64_t>(all.size());
  if (count == 0) return {};
  const KeyedPermutation order(count, key);
  for (int64_t i = 0; i < std::min(count, most); ++i)
    drawn.push_back(std::move(all[static_cast<size_t>(order(i))]));
  return drawn;
}

std::vector<Batch> reply_batches(std::span<const SampledReply> replies, const ReplyPlaces& places) {
  std::vector<Batch> batches(static_cast<size_t>(places.batches), empty_batch(places));
  for (Batch& batch : batches) {
    for (int64_t row = 0; row < places.rows; ++row) {
      const auto first = static_cast<size_t>(row * places.tokens);
      for (int64_t begin = 0; begin < places.tokens; begin += places.longest)
        add_document(batch, first, begin, std::min(begin + places.longest, places.tokens));
    }
  }
  for (const SampledReply& reply : replies) {
    const ReplyPlace place = place_of(reply.segment, places);
    fill(reply, place, places, batches.at(place.batch));
  }
  return batches;
}

std::vector<ReplyTargets> targets_of(std::span<const SampledReply> replies, const ReplyPlaces& places) {
  std::vector<ReplyTargets> targets;
  for (const SampledReply& reply : replies) {
    const ReplyPlace place = place_of(reply.segment, places);
    targets.push_back({place.batch, place.row + static_cast<size_t>(place.begin) + reply.prompt.size() - 1,
                       reply.reply.size()});
  }
  return targets;
}

std::vector<double> standardized(std::span<const double> rewards) {
  constexpr double kLeast =
      1e-4;  // added to the deviation, so that noise of nearly equal rewards stays small
  const auto count = static_cast<double>(rewards.size());
  const double mean = std::accumulate(rewards.begin(), rewards.end(), 0.0) / count;
  double squares = 0;
  for (const double reward : rewards) squares += (reward - mean) * (reward - mean);
  std::vector<double> result;
  for (const double reward : rewards)
    result.push_back((reward - mean) / (std::sqrt(squares / count) + kLeast));
  return result;
}

std::vector<double> leave_one_out(std::span<const float> distances) {
  const auto count = static_cast<double>(distances.size());
  // Each pair is a part of two means.
  const double all = (count - 1) / 2 * std::accumulate(distances.begin(), distances.end(), 0.0),
               pairs = count * (count - 1) / 2, pairs_of_others = (count - 1) * (count - 2) / 2;
  std::vector<double> adds;
  for (const float distance : distances) {
    const double of_others = all - (count - 1) * static_cast<double>(distance);
    adds.push_back(all / pairs - (pairs_of_others > 0 ? of_others / pairs_of_others : 0));
  }
  return adds;
}

}  // namespace hydrac::runtime
