// Starting hydrac as a user does: in a folder with a spec and a small corpus, by its command line, looking at
// its exit code, what it prints, and what it leaves behind.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/support/temp_dir.h"

namespace hydrac::e2e {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Outcome {
  int code = -1;  // 1000 + the signal that ended it
  std::string out, err;
};

// The hydrac under test. Tests may run apart from their build folder, as on a machine with a GPU: then
// $HYDRAC_PROGRAM names it.
std::string hydrac_program();

// A running hydrac. Its standard output is read here while it runs; its errors are kept for the end.
class Process {
 public:
  // `words` are the arguments; `environment` replaces or adds variables. Started in `folder`. `out`: a file
  // that its standard output goes to, instead of being read here.
  Process(const fs::path& folder, const Words& words,
          const std::map<std::string, std::string>& environment = {}, const fs::path& out = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The next line without its end; nothing when it has closed its output.
  std::optional<std::string> line();
  // Reads until a line holds `text`; false when it ended before.
  bool wait_for(const std::string& text);
  void send(int signal) const;
  pid_t id() const { return pid_; }
  // From now on nobody reads its output.
  void close_output();
  // Reads the rest and waits for the end.
  Outcome finish();

 private:
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;  // a pipe; an unnamed file
  std::string seen_, unread_;
};

// A folder with corpus.txt and base.yaml, gone afterwards. All share one cache of kernels, so that each shape
// is compiled once a program.
class Workplace {
 public:
  Workplace();
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  const fs::path& path() const { return folder_.path(); }
  Outcome run(const Words& words, const std::map<std::string, std::string>& environment = {}) const;

 private:
  test::TempDir folder_;
};

Words with(Words words, const Words& more);

// What `diff -q` names of the folder "program", which was emitted before, with base.yaml changed; but
// README.md, whose command has the overrides.
std::string changed_files(const Workplace& place, const Words& overrides);

// The spec of base.yaml: two layers, dropout, two micro-batches a step, a checkpoint every other step, one
// thread (more would let the matmuls sum in another order).
std::string base_spec();

// The cores that the tests may use, and so what they start.
std::vector<int> own_cores();

// The cache folder that every Workplace uses.
const fs::path& shared_cache();

// `text` without the values of "step_ms", "memory_gib" and their like, which differ from run to run.
std::string without_timing(const std::string& metrics_jsonl);
// That of a run's metrics.jsonl.
std::string metrics_of(const fs::path& run);

// `place.run(words)`, which must succeed.
void run_well(const Workplace& place, const Words& words);

// The lines of metrics.jsonl in a run's folder.
std::vector<nlohmann::json> records_of(const fs::path& run);

// Every file below a folder, relative and sorted; with `ignored`, a first path component that is not looked
// at.
Words files_below(const fs::path& folder, const std::string& ignored = "");

}  // namespace hydrac::e2e
