#include "runtime/train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/parallel/ranks.h"

namespace hydrac::runtime {

namespace {

struct Part {
  double loss = 0;  // of all targets of a batch
  int64_t targets = 0;
  int64_t hits = -1;  // of them; -1: the model predicts no classes
};

Part evaluate_batch(StepProgram& program, const Batch& batch) {
  const bool is_empty = batch.target_count == 0;
  double loss = 0;
  if (!is_empty || program.facts().computes_together) loss = program.evaluate(batch);
  const Place hits = program.ports().results.eval_hits;
  if (is_empty) return {0, batch.target_count, hits ? 0 : -1};
  return {loss, batch.target_count, hits ? std::llround(program.read_as<float>(hits)[0]) : -1};
}

// The batches `first`, `first` + `stride`, ... No others after one whose loss is not finite, so that it is
// the last one, see explain_divergence().
std::vector<Part> evaluate_share(StepProgram& program, const BatchLoader& loader, int64_t batches,
                                 int64_t first, int64_t stride) {
  std::vector<Part> parts;
  Batch batch;
  for (int64_t index = first; index < batches; index += stride) {
    loader.fill_eval(index, batch);
    parts.push_back(evaluate_batch(program, batch));
    if (!std::isfinite(parts.back().loss)) break;
  }
  return parts;
}

// The same where ranks compute together: all of them evaluate as many batches. Of ranks that share layers the
// first one counts.
std::vector<Part> evaluate_together(StepProgram& program, const BatchLoader& loader, int64_t batches,
                                    const Ranks& ranks) {
  std::vector<Part> parts;
  Batch batch;
  const int64_t groups = ranks.size(RankGroup::data);
  for (int64_t round = 0; round * groups < batches; ++round) {
    const int64_t index = round * groups + ranks.rank(RankGroup::data);
    loader.fill_eval(std::min(index, batches - 1), batch);
    const Part part = evaluate_batch(program, batch);
    if (index < batches && ranks.rank(RankGroup::tensor) == 0) parts.push_back(part);
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

}  // namespace

std::optional<Evaluation> evaluate(StepProgram& program, const BatchLoader& loader, int64_t max_batches,
                                   Ranks* ranks) {
  const int64_t batches = std::min(max_batches, loader.eval_batches());
  if (batches <= 0) return std::nullopt;
  const bool together = ranks && program.facts().computes_together;
  std::vector<Part> parts = together ? evaluate_together(program, loader, batches, *ranks)
                                     : evaluate_share(program, loader, batches, ranks ? ranks->rank() : 0,
                                                      ranks ? ranks->size() : 1);
  if (ranks) parts = all_parts(*ranks, parts);
  double loss = 0;
  int64_t targets = 0, hits = 0;
  for (const Part& part : parts) {
    loss += part.loss;
    targets += part.targets;
    hits += part.hits;
  }
  if (targets == 0) {
    throw InputError(
        fmt::format("the first {} validation batches have no targets; raise train.eval_batches, or set "
                    "train.eval_steps to 0",
                    batches));
  }
  Evaluation evaluation{loss / static_cast<double>(targets), std::nullopt};
  if (parts[0].hits >= 0) evaluation.accuracy = static_cast<double>(hits) / static_cast<double>(targets);
  return evaluation;
}

}  // namespace hydrac::runtime
