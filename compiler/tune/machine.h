// Which machine this is, as a lock file names it.
#pragma once
#include "spec/spec.h"
#include "tune/lock_file.h"

namespace hydrac::tune {

struct Machine {
  Facts identity;  // as LockSection::machine
  Facts software;  // as LockSection::software
};

// The part of this machine that runs the spec's target: the processors that this process may use, or the
// first GPU. InputError where there is no GPU.
Machine this_machine(const spec::Spec& spec);

// "Intel Xeon Platinum 8488C, 2 cores": for people.
std::string describe(const Facts& machine);

// "" or what others do with the spec's GPU, asked before this process uses it: times will differ more from
// round to round. "37% of its time and 12.3 GiB of its memory".
std::string used_by_others(const spec::Spec& spec);
// What a GPU that nobody computes on has is "": little time, and the memory of a desktop.
std::string used_by_others(int utilization_percent, int64_t memory_used_bytes);

}  // namespace hydrac::tune
