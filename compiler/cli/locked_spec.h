// A spec together with what its lock file chose (docs/tuning.md).
#pragma once
#include <map>
#include <optional>
#include <string>

#include "cli/arguments.h"
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

// Whose section is taken: that of the machine that will run the program, or the first one of the spec's
// target, so that what is emitted is the same on every machine.
enum class LockFor { this_machine, any_machine };

// As load(). Where a lock file is there and no section of it fits, that is said, and the spec's own values
// stay; with --locked it is an InputError. A lock file that is wrong is an error in any case. Says with what
// the spec was tuned where that differs.
std::optional<LockedSpec> load_with_lock(const Arguments& arguments, LockFor whose);

// The lock file of a command line: --lock, or the one beside the spec; "" for none. It need not exist.
std::string lock_path_of(const Arguments& arguments);

// Says which of the lock's choices the program does not repeat, and is an InputError then with --locked.
void compare_with_lock(const Arguments& arguments, const LockedSpec& locked,
                       const runtime::RecordedChoices& now);

// Keys of a spec, as written before its data is known, that decide how long a step takes: another value, and
// what was tuned says little.
std::map<std::string, std::string> tuned_keys(const spec::Spec& spec);

}  // namespace hydrac::cli
