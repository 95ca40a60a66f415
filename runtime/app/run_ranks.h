// The ranks of a run, from the side of the program that is one of them: who starts the others, how they take
// over rank 0's choices, and how all end together.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "runtime/app/train_run.h"
#include "runtime/parallel/ranks.h"

namespace hydrac::runtime {

// Who starts the other ranks if no launcher did.
enum class Starts {
  this_program,  // rank 0, by running itself again
  launcher       // nobody: it is an InputError
};

// The part of `cores` (train.cpu_affinity) that this process must check: its own if a launcher started it as
// one of `count` ranks, else all.
std::vector<int> cores_to_check(const std::vector<int>& cores, int count);

// This process as one of `count` ranks (parallel.data); null if `count` is 1. From here on it runs on its
// part of `cores`, if there are any. InputError if a launcher started another number of ranks, or if cores
// cannot be used. `quiet`: without a note that ranks share cores.
std::unique_ptr<Ranks> ranks_of_run(int count, const std::vector<int>& cores, Starts starts, bool quiet);

// For ranks that do not lead. Returns when rank 0 has made its program: kernels are compiled, matmuls
// measured and texts tokenized by then. Returns rank 0's choices, to be repeated.
RecordedChoices choices_of_rank_0(Ranks& ranks);

// Every rank calls it with its program. Rank 0 lets the others connect, all compare their settings, and sums
// over ranks work from here on. InputError if ranks have different specs, data, options, or versions of
// hydrac, or if ranks that share layers are on several hosts.
void join_ranks(Ranks& ranks, const TrainSettings& settings, LaidOutProgram& program);

// All ranks of a run with several hosts call it. Rank 0, unless it is `quiet`, prints each host's ranks,
// their device, and the variables that NCCL reads.
void print_hosts(Ranks& ranks, const LaidOutProgram& program, bool quiet);

// Runs train(ranks). An error of this rank ends the others too, with the same kind of error (InputError, or a
// run that failed). `ranks` may be null.
int end_together(Ranks* ranks, const std::function<int(Ranks*)>& train);

}  // namespace hydrac::runtime
