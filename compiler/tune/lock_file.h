// SPEC.lock.yaml: the results of `hydrac tune`, one section a machine. It is checked in beside the spec, so
// its text is stable (the same results give the same text). It is as untrusted as a spec: every mistake in it
// is a diagnostic with its place.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diag/diagnostic.h"
#include "runtime/cache/recorded_choices.h"
#include "spec/reader/tree.h"

namespace hydrac::tune {

// Names and values in the order in which they are written.
using Facts = std::vector<std::pair<std::string, std::string>>;

// "" where there is none of that name.
std::string find(const Facts& facts, const std::string& name);

// A key of the spec that was chosen.
struct LockedKey {
  std::string path;  // "train.micro_batch_size"
  std::string text;  // its value as YAML
  spec::Node value;  // the same, with its place
};

struct LockSection {
  Facts machine;   // what must be equal: target, name and size of the GPU or the processor
  Facts software;  // driver and the like: another one may be faster with other choices
  Facts measured;  // numbers, for people
  std::vector<LockedKey> keys;
  runtime::RecordedChoices choices;         // kernels' and libraries' algorithms
  std::map<std::string, std::string> spec;  // the keys that it was tuned for, without the chosen ones
  diag::Location where;
};

struct LockFile {
  std::vector<LockSection> sections;
};

// Keys that a lock file may set: they change how fast and in how much memory a step is computed.
bool may_be_locked(std::string_view path);

// specs/a.yaml -> specs/a.lock.yaml
std::string lock_path(const std::string& spec_path);

// nullopt with diagnostics where the file is no lock file; what is wrong stands there, all of it at once.
std::optional<LockFile> read_lock(const std::string& path, diag::Diagnostics& diagnostics);
std::optional<LockFile> parse_lock(const std::string& path, const std::string& text,
                                   diag::Diagnostics& diagnostics);

// Ends with a newline. `spec_name`: the spec's file name, for the comment.
std::string to_yaml(const LockFile& lock, const std::string& spec_name);

// The section of this very machine; the first one for the target; or nullptr.
const LockSection* section_of(const LockFile& lock, const Facts& machine);
const LockSection* section_for(const LockFile& lock, const std::string& target);
// Replaces the section of the same machine where it stands, or adds one at the end.
void put(LockFile& lock, LockSection section);

// The chosen keys as a map of maps, to be laid over a spec.
spec::Node as_spec(const LockSection& section);
// A key with a value that is YAML. std::logic_error when it is none: such values are hydrac's own.
LockedKey locked_key(const std::string& path, const std::string& text);

// Differences between a spec and a machine's software now and when it was tuned, a line each:
// "model.hidden_size: 768 then, 1024 now". A key that only one side has counts as equal: another version of
// hydrac wrote it.
std::vector<std::string> changes(const std::map<std::string, std::string>& then,
                                 const std::map<std::string, std::string>& now);
std::vector<std::string> changes(const Facts& then, const Facts& now);

}  // namespace hydrac::tune
