// A spec together with what its lock file chose (docs/tuning.md).
#pragma once
#include <map>
#include <optional>
#include <string>

#include "cli/input/arguments.h"
#include "runtime/cache/recorded_choices.h"
#include "spec/spec.h"

namespace hydrac::cli {

// Options of the verbs that take a lock file.
inline const Option kLocked{"--locked", "", "refuse to go on without a section of the lock file that fits"};
inline const Option kLock{"--lock", "FILE",
                          "another lock file than the one beside the spec; none: take none"};

struct LockedSpec {
  spec::Spec spec;                   // with the chosen keys
  runtime::RecordedChoices choices;  // empty where no section was taken
  std::string lock;                  // the file's path; "" where no section was taken
};

// The section that is taken: that of the machine that will run the program, or the first one of the spec's
// target, so that emitted code is the same on every machine.
enum class LockFor { this_machine, any_machine };

// Like load(). If a lock file exists and none of its sections fits, a note says so and the spec's own values
// stay; with --locked it is an InputError. A lock file with mistakes is an error in any case. Says what the
// spec was tuned with, where that differs.
std::optional<LockedSpec> load_with_lock(const Arguments& arguments, LockFor whose);

// The lock file of a command line: --lock, or the one beside the spec; "" for none. It need not exist.
std::string lock_path_of(const Arguments& arguments);

// Says which of the lock's choices the program does not repeat, and is an InputError then with --locked.
void compare_with_lock(const Arguments& arguments, const LockedSpec& locked,
                       const runtime::RecordedChoices& now);

// Keys of a spec, as written before its data is known, that decide how long a step takes: if one changes,
// tuned values say little.
std::map<std::string, std::string> tuned_keys(const spec::Spec& spec);

}  // namespace hydrac::cli
