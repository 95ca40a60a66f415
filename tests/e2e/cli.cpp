#include "tests/e2e/cli.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "runtime/log/metrics.h"

namespace hydrac::e2e {

namespace {

std::map<std::string, std::string> complete(std::map<std::string, std::string> environment) {
  environment.try_emplace("HYDRAC_CACHE", shared_cache().string());
  return environment;
}

// In the child: only what is safe after fork, and exec.
[[noreturn]] void become_hydrac(const std::string& program, const fs::path& folder, const Words& words,
                                const std::map<std::string, std::string>& environment, int out, int err) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  // As a terminal starts it, whatever the tests were started by.
  for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGTERM}) ::signal(signal, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (::chdir(folder.c_str()) == 0 && ::dup2(nothing, 0) == 0 && ::dup2(out, 1) == 1 && ::dup2(err, 2) == 2) {
    ::execv(argv[0], argv.data());
  }
  ::_exit(126);
}

}  // namespace

std::string hydrac_program() {
  const char* given = ::getenv("HYDRAC_PROGRAM");
  const std::string program = given ? given : HYDRAC_BUILT_PROGRAM;
  if (::access(program.c_str(), X_OK) != 0) {
    throw std::runtime_error(fmt::format("there is no program {} to be tested: $HYDRAC_PROGRAM {}", program,
                                         given ? "says so" : "may name one elsewhere"));
  }
  return fs::absolute(program).string();
}

Process::Process(const fs::path& folder, const Words& words,
                 const std::map<std::string, std::string>& environment, const fs::path& out) {
  const std::string program = hydrac_program();
  const auto variables = complete(environment);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
  err_ = ::memfd_create("stderr", MFD_CLOEXEC);
  pid_ = err_ < 0 ? -1 : ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0 && !out.empty()) ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666), ends[1]);
  if (pid_ == 0) become_hydrac(program, folder, words, variables, ends[1], err_);
  ::close(ends[1]);
  out_ = ends[0];
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    finish();
  }
  if (out_ >= 0) ::close(out_);
  ::close(err_);
}

std::optional<std::string> Process::line() {
  for (;;) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (out_ < 0) return std::nullopt;
    char buffer[4096];
    const ssize_t count = ::read(out_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    seen_.append(buffer, static_cast<size_t>(count));
    unread_.append(buffer, static_cast<size_t>(count));
  }
}

bool Process::wait_for(const std::string& text) {
  while (const std::optional<std::string> next = line()) {
    if (next->find(text) != std::string::npos) return true;
  }
  return false;
}

void Process::send(int signal) const {
  ASSERT_EQ(::kill(pid_, signal), 0);
}

void Process::close_output() {
  ::close(std::exchange(out_, -1));
}

Outcome Process::finish() {
  while (line()) {
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), seen_, ""};
  char buffer[4096];
  ::lseek(err_, 0, SEEK_SET);
  for (ssize_t n; (n = ::read(err_, buffer, sizeof buffer)) > 0;)
    outcome.err.append(buffer, static_cast<size_t>(n));
  return outcome;
}

Workplace::Workplace() {
  std::string corpus;
  for (int i = 0; i < 200; ++i) corpus += fmt::format("line {}: the fox jumps over {} dogs\n", i, i * i % 97);
  test::spill(folder_ / "corpus.txt", corpus);
  test::spill(folder_ / "base.yaml", base_spec());
}

Outcome Workplace::run(const Words& words, const std::map<std::string, std::string>& environment) const {
  return Process(path(), words, environment).finish();
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string changed_files(const Workplace& place, const Words& overrides) {
  const Outcome outcome = place.run(with({"diff", "base.yaml", "program", "-q"}, overrides));
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.code, outcome.out.empty() ? 0 : 1);
  return std::regex_replace(outcome.out, std::regex("changed  README.md\n"), "");
}

std::string base_spec() {
  return R"(name: base
target: cpu
model:
  hidden_size: 64
  num_hidden_layers: 2
  num_attention_heads: 4
  num_key_value_heads: 2
  intermediate_size: 128
  dropout: 0.1
  attention_dropout: 0.1
data:
  path: corpus.txt
  val_fraction: 0.1
train:
  sequence_len: 16
  micro_batch_size: 2
  gradient_accumulation_steps: 2
  max_steps: 12
  eval_steps: 4
  eval_batches: 2
  save_steps: 2
  save_total_limit: 0
  log_steps: 1
optimizations:
  threads: 1
sample:
  max_new_tokens: 0
)";
}

std::vector<int> own_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

const fs::path& shared_cache() {
  static const test::TempDir folder;
  return folder.path();
}

std::string without_timing(const std::string& metrics_jsonl) {
  std::istringstream lines(metrics_jsonl);
  std::string line, text;
  while (std::getline(lines, line)) {
    auto record = nlohmann::ordered_json::parse(line);
    for (const runtime::MetricField& field : runtime::metric_fields()) {
      if (field.is_timing) record.erase(field.key);
    }
    record.erase("memory_gib");  // on a GPU what the driver counts: a resumed run's may differ
    text += record.dump() + "\n";
  }
  return text;
}

std::string metrics_of(const fs::path& run) {
  return without_timing(test::slurp(run / "metrics.jsonl"));
}

void run_well(const Workplace& place, const Words& words) {
  const Outcome outcome = place.run(words);
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

std::vector<nlohmann::json> records_of(const fs::path& run) {
  std::istringstream lines(test::slurp(run / "metrics.jsonl"));
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(lines, line);) records.push_back(nlohmann::json::parse(line));
  return records;
}

Words files_below(const fs::path& folder, const std::string& ignored) {
  Words files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path relative = entry.path().lexically_relative(folder);
    if (entry.is_regular_file() && *relative.begin() != ignored) files.push_back(relative.string());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace hydrac::e2e
