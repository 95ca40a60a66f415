// The processes of a run from the side of the program that is one of them: who starts the others, how they
// come together around rank 0's choices, and one end for all.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "runtime/app/train_run.h"
#include "runtime/parallel/ranks.h"

namespace hydrac::runtime {

// Who starts the other ranks where no launcher did.
enum class Starts {
  this_program,  // rank 0, by running itself again
  launcher       // nobody: it is an InputError
};

// The subset of `cores` (train.cpu_affinity) that this process answers for: its own where a launcher started
// it as one of `count` ranks, else all.
std::vector<int> cores_to_check(const std::vector<int>& cores, int count);

// This process as one of `count` ranks (parallel.data); null where `count` is 1. From here on it runs on its
// part of `cores`, if there are any. InputError where a launcher started another number of ranks, or where
// cores cannot be used. `quiet`: without a note where ranks share cores.
std::unique_ptr<Ranks> ranks_of_run(int count, const std::vector<int>& cores, Starts starts, bool quiet);

// For ranks that do not lead. Returns when rank 0 has made its program: kernels are compiled, matmuls
// measured and texts tokenized by then. Gives rank 0's choices, to be repeated.
RecordedChoices choices_of_rank_0(Ranks& ranks);

// Every rank calls it with its program: rank 0 lets the others come, all make sure that they train alike, and
// sums over ranks work from here on. InputError where ranks have other specs, data, options, or versions of
// hydrac, or where ranks that share layers are on several hosts.
void join_ranks(Ranks& ranks, const TrainSettings& settings, LaidOutProgram& program);

// All ranks call it if a run has several hosts. Rank 0, unless it is `quiet`, prints each host's ranks, their
// device, and the variables that NCCL reads.
void print_hosts(Ranks& ranks, const LaidOutProgram& program, bool quiet);

// train(ranks), and one end: an error of this rank ends the others too, as what it is here (InputError, or a
// run that failed). `ranks` may be null.
int end_together(Ranks* ranks, const std::function<int(Ranks*)>& train);

}  // namespace hydrac::runtime
