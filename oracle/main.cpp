// hydrac-oracle: recomputes with LibTorch what hydrac computes without it.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

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

// result.json comes last: where it says ok, result.safetensors is whole.
void run_verify(const fs::path& folder, char**) {
  fs::remove(folder / "result.json");
  fs::remove(folder / "result.safetensors");
  const Job job = read_job(folder / "job.json");
  const SafetensorsFile tensors(folder / "tensors.safetensors");
  SafetensorsWriter results;
  verify(job, tensors, results);
  results.write(folder / "result.safetensors");
  write_json(folder / "result.json", {{"ok", true}});
}

void run_bench(const fs::path& folder, char** argv) {
  restart_with_fast_environment(argv);
  const BenchResult result = bench(read_job(folder / "job.json"));
  const json line = {{"ms_per_step_median", result.ms_per_step_median},
                     {"ms_min", result.ms_min},
                     {"tokens_per_second", result.tokens_per_second},
                     {"peak_rss_mib", result.peak_rss_mib},
                     {"torch", result.torch},
                     {"blas", blas_kernels()},
                     {"loss_first", result.loss_first},
                     {"loss_last", result.loss_last}};
  fmt::print("{}\n", line.dump());
}

struct Verb {
  const char* name;
  const char* help;
  void (*run)(const fs::path& folder, char** argv);
};

constexpr Verb kVerbs[] = {
    {"verify", "train JOBDIR/job.json on JOBDIR/tensors.safetensors; write result.safetensors, result.json",
     run_verify},
    {"bench", "time the same training in float32 on random data; print one line of JSON", run_bench},
};

int usage() {
  fmt::print(stderr, "usage: hydrac-oracle VERB JOBDIR\n");
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

int run(const Verb& verb, const fs::path& folder, char** argv) {
  try {
    verb.run(folder, argv);
    return 0;
  } catch (const std::exception& e) {
    return fail(verb, folder, e.what());
  }
}

}  // namespace
}  // namespace hydrac::oracle

int main(int argc, char** argv) {
  using namespace hydrac::oracle;
  if (argc != 3) return usage();
  for (const Verb& verb : kVerbs)
    if (std::string(argv[1]) == verb.name) return run(verb, argv[2], argv);
  return usage();
}
