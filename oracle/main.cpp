// hydrac-oracle: recomputes with LibTorch what hydrac computes without it.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "oracle/aten/bench.h"
#include "oracle/aten/threads.h"
#include "oracle/aten/verify.h"
#include "oracle/job/error.h"
#include "oracle/job/job.h"
#include "oracle/job/safetensors.h"

namespace hydrac::oracle {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void write_json(const fs::path& path, const json& object) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << object.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
  file.close();
  if (!file) throw JobError(fmt::format("{}: cannot be written", path.filename().string()));
}

struct CommandLine {
  fs::path folder;
  std::string device = "cpu";
  char** argv = nullptr;
};

// result.json comes last: where it says ok, result.safetensors is whole.
void run_verify(const CommandLine& line) {
  const fs::path& folder = line.folder;
  fs::remove(folder / "result.json");
  fs::remove(folder / "result.safetensors");
  const Job job = read_job(folder / "job.json");
  const SafetensorsFile tensors(folder / "tensors.safetensors");
  SafetensorsWriter results;
  verify(job, tensors, find_device(line.device), results);
  results.write(folder / "result.safetensors");
  write_json(folder / "result.json", {{"ok", true}});
}

void run_bench(const CommandLine& line) {
  if (line.device != "cpu") throw JobError("bench times on the CPU: --device is verify's");
  restart_with_fast_environment(line.argv);
  const BenchResult result = bench(read_job(line.folder / "job.json"));
  const json figures = {{"ms_per_step_median", result.ms_per_step_median},
                        {"ms_min", result.ms_min},
                        {"tokens_per_second", result.tokens_per_second},
                        {"peak_rss_mib", result.peak_rss_mib},
                        {"torch", result.torch},
                        {"blas", blas_kernels()},
                        {"loss_first", result.loss_first},
                        {"loss_last", result.loss_last}};
  fmt::print("{}\n", figures.dump());
}

struct Verb {
  const char* name;
  const char* help;
  void (*run)(const CommandLine& line);
};

constexpr Verb kVerbs[] = {
    {"verify", "train JOBDIR/job.json on JOBDIR/tensors.safetensors; write result.safetensors, result.json",
     run_verify},
    {"bench", "time the same training in float32 on random data; print one line of JSON", run_bench},
};

int usage() {
  fmt::print(stderr, "usage: hydrac-oracle VERB JOBDIR [--device cpu|cuda|auto]\n");
  for (const Verb& verb : kVerbs) fmt::print(stderr, "  {:<8} {}\n", verb.name, verb.help);
  return 2;
}

int fail(const Verb& verb, const fs::path& folder, const std::string& message) {
  fmt::print(stderr, "hydrac-oracle: error: {}\n", message);
  if (verb.run == run_verify) {
    try {
      write_json(folder / "result.json", {{"error", message}});
    } catch (const JobError& e) {
      fmt::print(stderr, "hydrac-oracle: error: {}\n", e.what());
    }
  }
  return 1;
}

int run(const Verb& verb, const CommandLine& line) {
  try {
    verb.run(line);
    return 0;
  } catch (const std::exception& e) {
    return fail(verb, line.folder, e.what());
  }
}

const Verb* find_verb(const std::string& name) {
  for (const Verb& verb : kVerbs)
    if (name == verb.name) return &verb;
  return nullptr;
}

}  // namespace
}  // namespace hydrac::oracle

int main(int argc, char** argv) {
  using namespace hydrac::oracle;
  const bool has_device = argc == 5 && std::string(argv[3]) == "--device";
  const Verb* verb = argc >= 3 ? find_verb(argv[1]) : nullptr;
  if (!verb || (argc != 3 && !has_device)) return usage();
  return run(*verb, {argv[2], has_device ? argv[4] : "cpu", argv});
}
