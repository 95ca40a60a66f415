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

}  // namespace hydrac::tune
