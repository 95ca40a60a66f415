// Scoring of replies by a program with an objective (docs/objectives.md), before the first micro-batch of a
// step.
#pragma once
#include <vector>

#include "runtime/program/step_program.h"

namespace hydrac::runtime {

// For a batch's targets, [B*T]: -log of their probabilities; 0 if one is ignored.
struct TargetLosses {
  std::vector<float> own;
  std::vector<float> base;  // by the model without its adapter; empty where the program has no such function
};

// For P sets of N replies.
struct ReplyDistances {
  std::vector<float> mean;     // [P]: cosine distance of two replies of a set
  std::vector<float> of_each;  // [P*N]: of a reply to the others of its set
};

// The losses of a batch of replies, without dropout. Hidden states are summed by Batch::segments, which
// number replies across their sets, until clear_replies().
TargetLosses score(StepProgram& program, const Batch& batch);
void clear_replies(StepProgram& program);
// Programs with a sentence encoder, which embeds replies instead of the model; score() embeds nothing then.
// The hidden states of texts (Batch's tokens, documents, positions and segments, [E,L] each) are summed by
// segments until clear_replies().
void embed(StepProgram& program, const Batch& texts);
// Distances of the replies that were scored, or embedded, so far.
ReplyDistances reply_distances(StepProgram& program);

}  // namespace hydrac::runtime
