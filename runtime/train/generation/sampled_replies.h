// Replies that a model samples during training, as batches: which prompts are answered, where each reply
// lies, and the weight of each of its tokens.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/batch.h"

namespace hydrac::runtime {

// The prompts of a step's items, at most `most`, drawn at random by `key`: the tokens of a document up to the
// first that is followed by a target. `tokens`: T, of a row of the batches, which say where documents are.
std::vector<std::vector<int32_t>> draw_prompts(const std::vector<Batch>& step, int64_t tokens, int64_t most,
                                               uint64_t key);

// Positions [begin, end) of the row whose first element is `row` become a document.
void add_document(Batch& batch, size_t row, int64_t begin, int64_t end);

struct SampledReply {
  int64_t segment = 0;                 // its number through all sets, Batch::segments
  std::vector<int32_t> prompt, reply;  // neither is empty
  std::string text = {};               // the reply's
  // One for each of its tokens, as Reply::log_probabilities.
  std::vector<double> log_probabilities = {};
};

// Rows of batches, all of the same shape, and how many tokens prompt and reply have at most.
struct ReplyPlaces {
  int64_t rows = 0, tokens = 0;  // B, T
  int64_t longest = 0;           // at most T
  int64_t batches = 0;           // that hold all replies of all sets

  int64_t of_a_row() const { return tokens / longest; }
  int64_t of_a_batch() const { return rows * of_a_row(); }
};

// `places.batches` batches; the reply of segment s is at place s. Targets are the replies' tokens, with
// weight 0.
std::vector<Batch> reply_batches(std::span<const SampledReply> replies, const ReplyPlaces& places);

// The places of a reply's targets: its batch, and the first of `count` elements there.
struct ReplyTargets {
  size_t batch = 0, first = 0, count = 0;
};
// Targets of each reply in its order.
std::vector<ReplyTargets> targets_of(std::span<const SampledReply> replies, const ReplyPlaces& places);

// Each reply's contribution to the mean distance of its set, given each one's mean distance to the others:
// that of the set less that of the set without it; 0 for a set of one reply.
std::vector<double> leave_one_out(std::span<const float> distances);

// How far each reward is from the mean of its set, in standard deviations; 0 where all are equal.
std::vector<double> standardized(std::span<const double> rewards);

}  // namespace hydrac::runtime
