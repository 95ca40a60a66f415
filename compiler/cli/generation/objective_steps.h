// Whole steps of a program with an objective, on random prompts and batches: sampling, scoring, training.
#pragma once
#include <cstdint>
#include <vector>

#include "cli/generation/random_texts.h"
#include "runtime/train/objective.h"
#include "targets/executable/executable.h"
#include "verify/batches.h"

namespace hydrac::cli {

// Parts of a step, in seconds.
struct ObjectiveParts {
  double prefill = 0, decode = 0;  // drawing tokens included
  double scoring = 0;              // embedding included
  double training = 0;             // micro-batches of replies and of data, and the update
};

class ObjectiveSteps {
 public:
  // The program must be initialized, with an encoder's weights loaded. Reported, as open_reply_encoder().
  // Replies have their full length. No reward command runs: a reply's reward is what it adds to the
  // diversity.
  explicit ObjectiveSteps(targets::Executable& program);

  // Seconds of each of `count` steps.
  std::vector<double> run(int64_t count);
  // Median of each part in the last run().
  const ObjectiveParts& parts() const { return parts_; }
  // Counts of a step.
  const runtime::GenerateCounts& sampled() const { return objective_.work().sampling; }
  const runtime::StepResult& last_result() const { return result_; }

 private:
  runtime::StepProgram& program_;
  const spec::Spec& spec_;
  const NoText tokenizer_;
  const runtime::ObjectiveSettings settings_;
  const std::vector<std::vector<int32_t>> prompts_;
  verify::Batches batches_;  // of data
  runtime::ReplyObjective objective_;
  int64_t step_ = 0;
  ObjectiveParts parts_;
  runtime::StepResult result_;
};

}  // namespace hydrac::cli
