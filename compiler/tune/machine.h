// This machine's name in a lock file.
#pragma once
#include "spec/spec.h"
#include "tune/lock_file.h"

namespace hydrac::tune {

struct Machine {
  Facts identity;  // as LockSection::machine
  Facts software;  // as LockSection::software
};

// The part of this machine that runs the spec's target: the processors that this process may use, or the
// first GPU. InputError without a GPU.
Machine this_machine(const spec::Spec& spec);

// "Intel Xeon Platinum 8488C, 2 cores": for people.
std::string describe(const Facts& machine);

// How much other processes use the spec's GPU, asked before this process does: "12.3 GiB of its memory and
// 37% of its time"; "" if not at all. Times then vary more from round to round.
std::string used_by_others(const spec::Spec& spec);
// Utilization alone says nothing: NVML remembers that of a process that has just ended.
std::string used_by_others(int utilization_percent, int64_t memory_used_bytes);

}  // namespace hydrac::tune
