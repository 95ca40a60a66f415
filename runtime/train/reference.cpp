#include "runtime/train/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/parallel/ranks.h"
#include "runtime/train/rank_exchange.h"

namespace hydrac::runtime {

namespace {

void fill(const BatchLoader& loader, const ScoredBatches& batches, int64_t index, Batch& out) {
  if (index < batches.train)
    loader.fill_train(index * loader.batch_size(), out);
  else
    loader.fill_eval(index - batches.train, out);
}

bool lacks(const PairScores& scores, const Batch& batch) {
  return std::ranges::any_of(batch.pairs, [&](int64_t pair) { return pair >= 0 && !scores.has(pair); });
}

std::vector<int64_t> lacking(const BatchLoader& loader, const ScoredBatches& batches,
                             const PairScores& scores) {
  std::vector<int64_t> indices;
  Batch batch;
  for (int64_t index = 0; index < batches.train + batches.eval; ++index) {
    fill(loader, batches, index, batch);
    if (lacks(scores, batch)) indices.push_back(index);
  }
  return indices;
}

struct Score {
  int64_t batch, pair;
  float chosen, rejected;
};

void score_batch(StepProgram& program, int64_t index, const Batch& batch, std::vector<Score>& scores) {
  program.compute(Function::score, &batch);
  const ResultPlaces& results = program.ports().results;
  const auto numbers = [&](Place place) {
    const std::span<const float> all = program.read_as<float>(place);
    return std::vector<float>(all.begin(), all.end());
  };
  const std::vector<float> chosen = numbers(results.chosen_score), rejected = numbers(results.rejected_score);
  for (size_t i = 0; i < batch.pairs.size(); ++i)
    if (batch.pairs[i] >= 0) scores.push_back({index, batch.pairs[i], chosen[i], rejected[i]});
}

class ReferencedLoader final : public BatchLoader {
 public:
  ReferencedLoader(std::shared_ptr<const BatchLoader> loader, PairScores scores)
      : loader_(std::move(loader)), scores_(std::move(scores)) {}

  void fill_train(int64_t first_sample, Batch& out) const override {
    loader_->fill_train(first_sample, out);
    add(out);
  }
  void fill_eval(int64_t index, Batch& out) const override {
    loader_->fill_eval(index, out);
    add(out);
  }
  int64_t eval_batches() const override { return loader_->eval_batches(); }
  std::vector<EvalSet> eval_sets() const override { return loader_->eval_sets(); }
  int64_t samples_per_epoch() const override { return loader_->samples_per_epoch(); }
  int64_t most_samples() const override { return loader_->most_samples(); }
  std::vector<SourceUse> uses(int64_t samples) const override { return loader_->uses(samples); }
  int64_t batch_size() const override { return loader_->batch_size(); }

 private:
  void add(Batch& out) const {
    out.chosen_reference.assign(out.pairs.size(), 0);
    out.rejected_reference.assign(out.pairs.size(), 0);
    for (size_t i = 0; i < out.pairs.size(); ++i) {
      if (out.pairs[i] < 0) continue;
      const auto pair = static_cast<size_t>(out.pairs[i]);
      out.chosen_reference[i] = scores_.chosen.at(pair);
      out.rejected_reference[i] = scores_.rejected.at(pair);
    }
  }

  std::shared_ptr<const BatchLoader> loader_;
  PairScores scores_;
};

}  // namespace

bool PairScores::has(int64_t pair) const {
  return pair < std::ssize(chosen) && !std::isnan(chosen[static_cast<size_t>(pair)]);
}

int64_t PairScores::count() const {
  return std::ranges::count_if(chosen, [](float score) { return !std::isnan(score); });
}

void PairScores::set(int64_t pair, float of_chosen, float of_rejected) {
  const auto at = static_cast<size_t>(pair);
  if (at >= chosen.size()) {
    chosen.resize(at + 1, std::numeric_limits<float>::quiet_NaN());
    rejected.resize(at + 1, std::numeric_limits<float>::quiet_NaN());
  }
  chosen[at] = of_chosen;
  rejected[at] = of_rejected;
}

std::string PairScores::to_bytes() const {
  std::string bytes(2 * chosen.size() * sizeof(float), '\0');
  if (chosen.empty()) return bytes;
  std::memcpy(bytes.data(), chosen.data(), bytes.size() / 2);
  std::memcpy(bytes.data() + bytes.size() / 2, rejected.data(), bytes.size() / 2);
  return bytes;
}

PairScores PairScores::from_bytes(std::string_view bytes) {
  const size_t pairs = bytes.size() / (2 * sizeof(float));
  PairScores scores{std::vector<float>(pairs), std::vector<float>(pairs)};
  if (pairs == 0) return scores;
  std::memcpy(scores.chosen.data(), bytes.data(), pairs * sizeof(float));
  std::memcpy(scores.rejected.data(), bytes.data() + pairs * sizeof(float), pairs * sizeof(float));
  return scores;
}

bool lacks_scores(const BatchLoader& loader, const ScoredBatches& batches, const PairScores& scores) {
  return !lacking(loader, batches, scores).empty();
}

// Every rank scores as many batches, the last ones twice: some programs compute together.
bool score_pairs(StepProgram& program, const BatchLoader& loader, const ScoredBatches& batches, Ranks* ranks,
                 const std::function<bool()>& goes_on, PairScores& scores) {
  const std::vector<int64_t> all = lacking(loader, batches, scores);
  const int64_t shares = ranks ? ranks->size() : 1;
  std::vector<Score> own;
  Batch batch;
  for (int64_t first = 0; first < std::ssize(all); first += shares) {
    if (!goes_on()) return false;
    const int64_t index =
        all[static_cast<size_t>(std::min(first + (ranks ? ranks->rank() : 0), std::ssize(all) - 1))];
    fill(loader, batches, index, batch);
    score_batch(program, index, batch, own);
  }
  // The last batch of an epoch may repeat pairs of the first: their scores are those of the batch that comes
  // later, however many ranks there are.
  std::vector<Score> of_all = joined<Score>(ranks, own);
  std::ranges::stable_sort(of_all, {}, &Score::batch);
  for (const Score& score : of_all) scores.set(score.pair, score.chosen, score.rejected);
  return true;
}

std::shared_ptr<const BatchLoader> with_reference(std::shared_ptr<const BatchLoader> loader,
                                                  PairScores scores) {
  return std::make_shared<ReferencedLoader>(std::move(loader), std::move(scores));
}

}  // namespace hydrac::runtime
