// Learning from replies that the model samples while it trains (docs/objectives.md).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/tokenizer.h"
#include "runtime/program/step_program.h"
#include "runtime/sample/sample.h"
#include "runtime/train/generation/generate.h"
#include "runtime/train/generation/reply_encoder.h"
#include "runtime/train/generation/reply_scores.h"
#include "runtime/train/generation/reward_command.h"
#include "runtime/train/generation/sampled_replies.h"

namespace hydrac::runtime {

class Ranks;

// Plain data; as the section `objective` of a spec.
struct ObjectiveSettings {
  // Prompts of a step that replies are sampled to: as many by each rank. 0: there is no objective.
  int64_t prompts = 0;
  int64_t replies = 0;                            // to each, at least 2
  double weight = 0;                              // of the policy gradient
  double kl = 0;                                  // of the divergence from the model without its adapter
  int64_t prompt_tokens = 0, max_new_tokens = 0;  // at most
  int64_t sequence_len = 0;                       // T
  RewardCommand reward = {};  // what a reply is worth; no words: what it adds to the diversity of its set
  ReplyEncoder encoder;
  SampleOptions sampling;  // its seed is that of all replies
};

// Results of a step's replies, means over those of all ranks.
struct ObjectiveResult {
  double diversity = 0;          // mean cosine distance of two replies to a prompt
  double reply_tokens = 0;       // that a reply has
  double seconds = 0;            // that sampling took, on the rank where it took longest
  std::optional<double> kl;      // of a token, from the model without its adapter
  std::optional<double> reward;  // of a reply
  // |log p of sampling - log p of scoring| of a token, at temperature 1; over tokens whose probability
  // sampling knows (Reply::log_probabilities).
  std::optional<double> sampling_gap;

  std::vector<Metric> metrics() const;  // all of these but `seconds`
};

// This rank's work in a step, for those who measure.
struct ObjectiveWork {
  GenerateCounts sampling;
  double scoring_seconds = 0;  // embeddings and rewards included, and waiting for other ranks
};

class ReplyObjective {
 public:
  // All must outlive it. `ranks`: the ranks that train together; null: this process alone. Every rank calls
  // the members below at the same point.
  ReplyObjective(StepProgram& program, const Tokenizer& tokenizer, const ObjectiveSettings& settings,
                 Ranks* ranks = nullptr)
      : program_(program), tokenizer_(tokenizer), settings_(settings), ranks_(ranks) {}

  // Runs before the micro-batches of data of step `step`, and answers the prompts in their items: samples
  // replies with the current weights, and takes their micro-steps, whose gradient comes before that of the
  // data. `data` is that of all ranks, each of which answers its share. nullopt if no item has a prompt; the
  // micro-steps are taken anyway. A function of settings, step, data and weights, the same on every rank.
  // Throws the program's RunErrors, and RewardError before any micro-step, on all ranks.
  std::optional<ObjectiveResult> begin_step(int64_t step, const std::vector<Batch>& data);
  // The same with the prompts themselves, in micro-batches of `rows` sequences.
  std::optional<ObjectiveResult> answer(int64_t step, const std::vector<std::vector<int32_t>>& prompts,
                                        int64_t rows);
  // Work of the step begun last.
  const ObjectiveWork& work() const { return work_; }

 private:
  // The sets of this rank, from `first_set` of those of all ranks on. Segments count from 0 on every rank.
  struct Answers {
    int64_t all_sets = 0, first_set = 0;
    std::vector<SampledReply> replies;
  };
  std::vector<SampledReply> sample(std::span<const std::vector<int32_t>> prompts, int64_t first_set,
                                   int64_t step);
  void embed(std::span<const SampledReply> replies);
  std::vector<double> rewards(const Answers& answers) const;
  std::vector<double> advantages(const Answers& answers, const ReplyDistances& distances,
                                 ObjectiveResult& result) const;
  ObjectiveResult weigh(const Answers& answers, const ReplyPlaces& places, std::vector<Batch>& batches);

  StepProgram& program_;
  const Tokenizer& tokenizer_;
  const ObjectiveSettings& settings_;
  Ranks* ranks_;
  ObjectiveWork work_;
};

}  // namespace hydrac::runtime
