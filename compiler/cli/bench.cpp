// `hydrac bench`: how long a training step takes, where the time goes, and how it compares.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/spec_input.h"
#include "cli/verb.h"
#include "runtime/error.h"
#include "runtime/log/units.h"
#include "verify/job.h"
#include "verify/oracle.h"

namespace hydrac::cli {

namespace {

using Json = nlohmann::ordered_json;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One row of the kernel table: all calls of a step with the same name and label.
struct Row {
  std::string name, label;
  int calls = 0;
  double seconds = 0, flop = 0, bytes = 0;
};

std::vector<Row> kernel_rows(targets::CpuProgram& program, int64_t micro_batches) {
  std::map<std::pair<std::string, std::string>, Row> rows;
  auto add = [&](const std::string& function, double times) {
    constexpr int repeats = 5;
    std::vector<std::vector<targets::CallTime>> runs;
    for (int i = 0; i < repeats; ++i) runs.push_back(program.timed(function));
    for (size_t call = 0; call < runs[0].size(); ++call) {
      std::vector<double> seconds;
      for (const auto& run : runs) seconds.push_back(run[call].seconds);
      const targets::CallTime& one = runs[0][call];
      const std::string label = one.name == "gemm" ? one.label : "";
      Row& row = rows[{one.name, label}];
      row.name = one.name;
      row.label = label;
      row.calls += static_cast<int>(times);
      row.seconds += median(seconds) * times;
      row.flop += one.flop * times;
      row.bytes += one.bytes * times;
    }
  };
  add("micro_step", static_cast<double>(micro_batches));
  add("update", 1);
  std::vector<Row> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  std::ranges::stable_sort(list, std::ranges::greater(), &Row::seconds);
  return list;
}

void print_rows(const std::vector<Row>& rows) {
  double total = 0;
  for (const Row& row : rows) total += row.seconds;
  fmt::print("\n{:<58} {:>6} {:>9} {:>7} {:>9} {:>9}\n", "kernel", "calls", "ms", "share", "GFLOP/s", "GB/s");
  for (const Row& row : rows) {
    fmt::print("{:<58} {:>6} {:>9.3f} {:>6.1f}% {:>9.1f} {:>9.1f}\n",
               row.label.empty() ? row.name : row.name + " " + row.label, row.calls, row.seconds * 1e3,
               100 * row.seconds / total, row.flop / row.seconds / 1e9, row.bytes / row.seconds / 1e9);
  }
}

Json measure(targets::CpuProgram& program, int64_t steps) {
  const spec::Spec& spec = program.compiled().spec;
  const verify::Batches batches = verify::random_batches(spec, 4, 7);
  program.initialize();
  runtime::StepResult result;
  auto step = [&](int64_t i) {
    const auto& micro = batches[static_cast<size_t>(i) % batches.size()];
    for (const runtime::Batch& batch : micro) program.micro_step(batch, verify::inverse_count(micro));
    program.update();
    result = program.finish_step();
  };
  constexpr int64_t warmup = 3;
  for (int64_t i = 0; i < warmup; ++i) step(i);
  std::vector<double> seconds;
  for (int64_t i = 0; i < steps; ++i) seconds.push_back(seconds_of([&] { step(i); }));
  const double typical = median(seconds);
  const double tokens = static_cast<double>(spec.train.micro_batch_size * spec.train.sequence_len *
                                            spec.train.gradient_accumulation_steps);
  const double flops = program.flop_per_target() * tokens / typical,
               peak = program.blas().peak_gflops() * 1e9;
  return {{"spec", spec.name},
          {"threads", program.compiled().threads},
          {"blas", program.blas().name()},
          {"steps", steps},
          {"step_ms", typical * 1e3},
          {"step_ms_min", *std::ranges::min_element(seconds) * 1e3},
          {"tokens_per_second", tokens / typical},
          {"gflops", flops / 1e9},
          {"sgemm_peak_gflops", peak / 1e9},
          {"share_of_peak", flops / peak},
          {"arena_bytes", program.arena_bytes()},
          {"loss", result.loss}};
}

Json measure_peer(const Arguments& arguments, const spec::Spec& spec, int threads, int64_t steps) {
  if (arguments.value("--peer") != "libtorch") throw runtime::InputError("--peer: only libtorch is known");
  const verify::JobFolder folder(std::nullopt);
  verify::write_bench_job(folder.path(), spec, threads, steps);
  return Json::parse(
      verify::run_oracle(verify::find_oracle(arguments.value("--oracle")), "bench", folder.path()));
}

void print_result(const Json& r) {
  fmt::print(
      "{}: {:.2f} ms a step (least {:.2f}), {} tokens/s, {:.0f} GFLOP/s = {:.0f}% of this machine's sgemm "
      "peak of {:.0f}\n",
      r["spec"].get<std::string>(), r["step_ms"].get<double>(), r["step_ms_min"].get<double>(),
      runtime::human_count(r["tokens_per_second"].get<double>()), r["gflops"].get<double>(),
      100 * r["share_of_peak"].get<double>(), r["sgemm_peak_gflops"].get<double>());
  fmt::print("{} of tensor memory, {} threads, products by {}\n",
             runtime::human_bytes(r["arena_bytes"].get<uint64_t>()), r["threads"].get<int>(),
             r["blas"].get<std::string>());
}

}  // namespace

int bench_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  require_cpu(*spec);
  complete_for_planning(*spec);
  const int threads = thread_count(*spec);
  const int64_t steps = std::max<int64_t>(1, arguments.number("--steps", 20));
  Json result;
  {
    targets::CpuProgram program(driver::compile(*spec, {threads, ""}), targets::default_cache_dir());
    result = measure(program, steps);
    if (!arguments.has("--json")) {
      print_result(result);
      print_rows(kernel_rows(program, spec->train.gradient_accumulation_steps));
    }
  }
  if (arguments.has("--peer")) {
    const Json peer = measure_peer(arguments, *spec, threads, steps);
    result["peer"] = peer;
    result["ratio"] = peer["ms_per_step_median"].get<double>() / result["step_ms"].get<double>();
    if (!arguments.has("--json")) {
      fmt::print("\nLibTorch {}: {:.2f} ms a step; hydrac is {:.2f}x as fast\n",
                 peer["torch"].get<std::string>(), peer["ms_per_step_median"].get<double>(),
                 result["ratio"].get<double>());
    }
  }
  if (arguments.has("--json")) fmt::print("{}\n", result.dump());
  return kFine;
}

}  // namespace hydrac::cli
