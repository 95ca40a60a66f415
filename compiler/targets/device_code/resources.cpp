#include "targets/device_code/resources.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace hydrac::device_code {
namespace {

// The number that stands before `unit`: number_before("Used 32 registers, ...", " registers") is 32.
std::optional<std::int64_t> number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t start = end;
  while (start > 0 && line[start - 1] >= '0' && line[start - 1] <= '9') --start;
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(line.data() + start, line.data() + end, number);
  if (error != std::errc() || stop != line.data() + end) return std::nullopt;
  return number;
}

// The text between the first pair of single quotes.
std::string_view quoted(std::string_view line) {
  const std::size_t start = line.find('\'');
  if (start == std::string_view::npos) return {};
  const std::size_t end = line.find('\'', start + 1);
  return end == std::string_view::npos ? std::string_view() : line.substr(start + 1, end - start - 1);
}

}  // namespace

// The lines of one kernel, in this order (functions that are not inlined have properties too, but no entry):
//   ptxas info    : Compiling entry function 'NAME' for 'sm_90a'
//   ptxas info    : Function properties for NAME
//       256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 32 registers, used 1 barriers, 400 bytes smem
AssemblerReport read_assembler_report(std::string_view log) {
  AssemblerReport report;
  std::map<std::string, KernelResources> kernels;
  KernelResources* current = nullptr;
  constexpr std::string_view properties = "Function properties for ";
  bool own_properties = false;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    if (line.find("Compiling entry function") != std::string_view::npos) {
      const std::string name(quoted(line));
      current = &kernels[name];
      current->kernel = name;
    } else if (const std::size_t at = line.find(properties); at != std::string_view::npos) {
      own_properties = current != nullptr && line.substr(at + properties.size()) == current->kernel;
    } else if (const auto stack = number_before(line, " bytes stack frame")) {
      if (!own_properties) continue;
      current->stack_bytes = *stack;
      current->spill_store_bytes = number_before(line, " bytes spill stores").value_or(0);
      current->spill_load_bytes = number_before(line, " bytes spill loads").value_or(0);
    } else if (const auto registers = number_before(line, " registers")) {
      if (current == nullptr) continue;
      current->registers = static_cast<int>(*registers);
      current->shared_bytes = number_before(line, " bytes smem").value_or(0);
    } else if (!line.starts_with("ptxas info") && !line.empty() && line.front() != '\0') {
      report.rest.append(line).append("\n");
    }
  }
  for (auto& [name, kernel] : kernels) report.kernels.push_back(std::move(kernel));
  return report;
}

}  // namespace hydrac::device_code
