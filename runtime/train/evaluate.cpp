#include "runtime/train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/parallel/ranks.h"

namespace hydrac::runtime {

namespace {

struct Part {
  double loss = 0;      // of all targets of a batch
  int64_t targets = 0;  // or pairs: Batch::loss_terms()
  int64_t hits = -1;    // of them; -1: the model predicts no classes
};

Part evaluate_batch(StepProgram& program, const Batch& batch) {
  const bool is_empty = batch.target_count == 0;
  double loss = 0;
  if (!is_empty || program.facts().computes_together) loss = program.evaluate(batch);
  const Place hits = program.ports().results.eval_hits;
  if (is_empty) return {0, 0, hits ? 0 : -1};
  return {loss, batch.loss_terms(), hits ? std::llround(program.read_as<float>(hits)[0]) : -1};
}

// A loader's batches that are evaluated, by their place in the order of evaluation.
class Batches {
 public:
  Batches(const BatchLoader& loader, int64_t most) : loader_(loader) {
    for (const EvalSet& set : loader.eval_sets())
      sets_.push_back({set.name, set.first, std::clamp<int64_t>(set.batches, 0, most)});
    for (const EvalSet& set : sets_) count_ += set.batches;
  }

  int64_t count() const { return count_; }
  std::span<const EvalSet> sets() const { return sets_; }
  void fill(int64_t place, Batch& out) const {
    for (const EvalSet& set : sets_) {
      if (place < set.batches) return loader_.fill_eval(set.first + place, out);
      place -= set.batches;
    }
  }

 private:
  const BatchLoader& loader_;
  std::vector<EvalSet> sets_;
  int64_t count_ = 0;
};

// The batches `first`, `first` + `stride`, ... Stops after one whose loss is not finite, so that it is the
// last one for explain_divergence().
std::vector<Part> evaluate_share(StepProgram& program, const Batches& batches, int64_t first,
                                 int64_t stride) {
  std::vector<Part> parts;
  Batch batch;
  for (int64_t index = first; index < batches.count(); index += stride) {
    batches.fill(index, batch);
    parts.push_back(evaluate_batch(program, batch));
    if (!std::isfinite(parts.back().loss)) break;
  }
  return parts;
}

// Evaluation for programs whose ranks compute together: every rank evaluates the same number of batches. If
// ranks share layers, only the first of them counts its result.
std::vector<Part> evaluate_together(StepProgram& program, const Batches& batches, const Ranks& ranks) {
  std::vector<Part> parts;
  Batch batch;
  const int64_t groups = ranks.size(RankGroup::data);
  for (int64_t round = 0; round * groups < batches.count(); ++round) {
    const int64_t index = round * groups + ranks.rank(RankGroup::data);
    batches.fill(std::min(index, batches.count() - 1), batch);
    const Part part = evaluate_batch(program, batch);
    if (index < batches.count() && ranks.rank(RankGroup::tensor) == 0) parts.push_back(part);
  }
  return parts;
}

// The parts of all batches as one process would add them up, in their order.
std::vector<Part> all_parts(Ranks& ranks, const std::vector<Part>& own) {
  const std::vector<std::string> shares =
      ranks.gather({reinterpret_cast<const char*>(own.data()), own.size() * sizeof(Part)});
  std::vector<Part> all;
  for (size_t round = 0; round <= shares[0].size() / sizeof(Part); ++round) {
    for (const std::string& share : shares) {
      if ((round + 1) * sizeof(Part) > share.size()) continue;
      std::memcpy(&all.emplace_back(), share.data() + round * sizeof(Part), sizeof(Part));
    }
  }
  return all;
}

Part sum_of(std::span<const Part> parts) {
  Part sum{.hits = 0};
  for (const Part& part : parts) {
    sum.loss += part.loss;
    sum.targets += part.targets;
    sum.hits += part.hits;
  }
  return sum;
}

std::string without_targets(const EvalSet& set) {
  return fmt::format(
      "the first {} validation batches{} have no targets; raise train.eval_batches, or set "
      "train.eval_steps to 0",
      set.batches, set.name.empty() ? "" : " of " + set.name);
}

}  // namespace

std::optional<Evaluation> evaluate(StepProgram& program, const BatchLoader& loader, int64_t max_batches,
                                   Ranks* ranks) {
  const Batches batches(loader, max_batches);
  if (batches.count() <= 0) return std::nullopt;
  const bool together = ranks && program.facts().computes_together;
  std::vector<Part> parts =
      together ? evaluate_together(program, batches, *ranks)
               : evaluate_share(program, batches, ranks ? ranks->rank() : 0, ranks ? ranks->size() : 1);
  if (ranks) parts = all_parts(*ranks, parts);
  Evaluation evaluation;
  Part all{.hits = 0};
  std::span<const Part> left(parts);
  for (const EvalSet& set : batches.sets()) {
    // After a batch whose loss is not finite there may be no others.
    const auto own = left.first(std::min(left.size(), static_cast<size_t>(set.batches)));
    left = left.subspan(own.size());
    const Part sum = sum_of(own);
    if (sum.targets == 0 && !own.empty()) throw InputError(without_targets(set));
    if (!set.name.empty() && sum.targets > 0)
      evaluation.losses[set.name] = sum.loss / static_cast<double>(sum.targets);
    all = sum_of(std::array{all, sum});
  }
  evaluation.loss = all.loss / static_cast<double>(all.targets);
  if (parts[0].hits >= 0)
    evaluation.accuracy = static_cast<double>(all.hits) / static_cast<double>(all.targets);
  return evaluation;
}

}  // namespace hydrac::runtime
