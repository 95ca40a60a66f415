// The reference of objectives that learn from pairs (docs/preferences.md): log-probabilities of their texts
// by the weights that a run begins with, kept in the run's folder.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/program/step_program.h"

namespace hydrac::runtime {

class Ranks;

// By the numbers of pairs, Batch::pairs; NaN: not scored.
struct PairScores {
  std::vector<float> chosen, rejected;

  bool has(int64_t pair) const;
  int64_t count() const;  // of those that are scored
  void set(int64_t pair, float of_chosen, float of_rejected);

  // As bytes of a file, and back; scores of another form are none.
  std::string to_bytes() const;
  static PairScores from_bytes(std::string_view bytes);
};

// The batches of a run whose pairs want scores.
struct ScoredBatches {
  int64_t train = 0;  // the first so many of the loader's
  int64_t eval = 0;   // likewise
};

// True if `scores` lack a pair of these batches.
bool lacks_scores(const BatchLoader& loader, const ScoredBatches& batches, const PairScores& scores);

// Scores what is missing, by the weights that the program has. With `ranks` each does its share, and all know
// the scores of all. False where `goes_on`, which ranks call together, says so before the end.
bool score_pairs(StepProgram& program, const BatchLoader& loader, const ScoredBatches& batches, Ranks* ranks,
                 const std::function<bool()>& goes_on, PairScores& scores);

// The loader's batches with these references.
std::shared_ptr<const BatchLoader> with_reference(std::shared_ptr<const BatchLoader> loader,
                                                  PairScores scores);

}  // namespace hydrac::runtime
