// What is learned from replies that the model samples while it trains (docs/objectives.md).
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/tokenizer.h"
#include "runtime/sample/sample.h"
#include "runtime/train/reward_command.h"
#include "runtime/train/sampled_replies.h"
#include "runtime/train/step_program.h"

namespace hydrac::runtime {

// An encoder of sentences, which embeds replies in place of the model's own hidden states.
struct ReplyEncoder {
  std::filesystem::path weights;  // see WeightFiles::fill_encoder(); empty: there is none
  // The ids of a text, those included that begin and end it, and at most so many. Needed where there is one.
  std::function<std::vector<int32_t>(std::string_view text, int64_t most)> ids;
  bool first_token = false;  // a text is embedded by the hidden state of its first token, not by their mean
};

// Plain data; as the section `objective` of a spec.
struct ObjectiveSettings {
  int64_t prompts = 0;  // of a step, that replies are sampled to; 0: there is no objective
  int64_t replies = 0;  // to each, at least 2
  double weight = 0;    // of the policy gradient
  double kl = 0;        // of the divergence from the model without its adapter
  int64_t prompt_tokens = 0, max_new_tokens = 0;  // at most
  int64_t sequence_len = 0;                       // T
  RewardCommand reward = {};  // what a reply is worth; no words: what it adds to the diversity of its set
  ReplyEncoder encoder;
  SampleOptions sampling;           // its seed is that of all replies
  std::vector<int32_t> end_tokens;  // that end a reply, beside the tokenizer's end of text
};

// Of a step's replies, means over them.
struct ObjectiveResult {
  double diversity = 0;          // mean cosine distance of two replies to a prompt
  double reply_tokens = 0;       // that a reply has
  double seconds = 0;            // that sampling took
  std::optional<double> kl;      // of a token, from the model without its adapter
  std::optional<double> reward;  // of a reply
};

class ReplyObjective {
 public:
  // All must outlive it.
  ReplyObjective(StepProgram& program, const Tokenizer& tokenizer, const ObjectiveSettings& settings)
      : program_(program), tokenizer_(tokenizer), settings_(settings) {}

  // Before the micro-batches of data of step `step`, whose items' prompts are answered: samples replies with
  // the weights as they are, and takes the micro-steps by which their gradient comes before that of the data.
  // nullopt where no item has a prompt; the micro-steps are taken all the same. A function of settings, step,
  // data and weights. The program's RunErrors; RewardError before any micro-step.
  std::optional<ObjectiveResult> begin_step(int64_t step, const std::vector<Batch>& data);

 private:
  std::vector<SampledReply> sample(const std::vector<std::vector<int32_t>>& prompts, int64_t step) const;
  void embed(std::span<const SampledReply> replies);
  std::vector<double> advantages(std::span<const SampledReply> replies, const ReplyDistances& distances,
                                 ObjectiveResult& result) const;
  ObjectiveResult weigh(std::span<const SampledReply> replies, const ReplyPlaces& places,
                        std::vector<Batch>& batches);

  StepProgram& program_;
  const Tokenizer& tokenizer_;
  const ObjectiveSettings& settings_;
};

}  // namespace hydrac::runtime
