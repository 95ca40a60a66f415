#include "cli/output/kernel_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "tune/timed_steps.h"

namespace hydrac::cli {

namespace {

double total_seconds(const std::vector<KernelRow>& rows) {
  double total = 0;
  for (const KernelRow& row : rows) total += row.seconds;
  return total;
}

}  // namespace

std::vector<KernelRow> kernel_rows(targets::Executable& program, const std::vector<TimedFunction>& functions,
                                   const driver::Peaks& peaks) {
  std::map<std::pair<std::string, std::string>, KernelRow> rows;
  auto add = [&](const std::string& function, double times) {
    constexpr int repeats = 5;
    std::vector<std::vector<targets::CallTime>> runs;
    for (int i = 0; i < repeats; ++i) runs.push_back(program.timed(function));
    for (size_t call = 0; call < runs[0].size(); ++call) {
      std::vector<double> seconds;
      for (const auto& run : runs) seconds.push_back(run[call].seconds);
      const targets::CallTime& one = runs[0][call];
      const bool matmul = one.name.starts_with("gemm") || one.name.starts_with("plain_matmul");
      KernelRow& row = rows[{one.name, matmul ? one.label : ""}];
      row.name = one.name;
      row.label = matmul ? one.label : "";
      row.calls += static_cast<int>(times);
      row.seconds += tune::median(seconds) * times;
      row.flop += one.flop * times;
      row.bytes += one.bytes * times;
      row.floor += floor_seconds(peaks, *one.call) * times;
    }
  };
  for (const TimedFunction& function : functions) add(function.name, static_cast<double>(function.times));
  std::vector<KernelRow> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  std::ranges::stable_sort(list, std::ranges::greater(), &KernelRow::seconds);
  return list;
}

nlohmann::ordered_json rows_json(const std::vector<KernelRow>& rows) {
  const double total = total_seconds(rows);
  auto list = nlohmann::ordered_json::array();
  for (const KernelRow& row : rows) {
    list.push_back({{"name", row.name},
                    {"label", row.label},
                    {"calls", row.calls},
                    {"ms", row.seconds * 1e3},
                    {"floor_ms", row.floor * 1e3},
                    {"share", row.seconds / total},
                    {"tflops", row.flop / row.seconds / 1e12},
                    {"gbs", row.bytes / row.seconds / 1e9}});
  }
  return list;
}

void print_rows(const std::vector<KernelRow>& rows) {
  const double total = total_seconds(rows);
  fmt::print("\n{:<64} {:>6} {:>9} {:>9} {:>7} {:>9} {:>9}\n", "kernel", "calls", "ms", "floor ms", "share",
             "GFLOP/s", "GB/s");
  for (const KernelRow& row : rows) {
    fmt::print("{:<64} {:>6} {:>9.3f} {:>9} {:>6.1f}% {:>9.1f} {:>9.1f}\n",
               row.label.empty() ? row.name : row.name + " " + row.label, row.calls, row.seconds * 1e3,
               row.floor > 0 ? fmt::format("{:.3f}", row.floor * 1e3) : "", 100 * row.seconds / total,
               row.flop / row.seconds / 1e9, row.bytes / row.seconds / 1e9);
  }
  fmt::print("{:<64} {:>6} {:>9.3f}, each timed alone\n", "all", "", total * 1e3);
}

}  // namespace hydrac::cli
