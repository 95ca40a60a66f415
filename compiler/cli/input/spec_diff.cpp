// `hydrac diff SPEC SPEC`: what changes of the program, its work and its memory from one spec to another.
#include <fmt/format.h>

#include <map>
#include <set>

#include "cli/build_program.h"
#include "cli/input/locked_spec.h"
#include "cli/input/spec_input.h"
#include "cli/output/checkpoint_files.h"
#include "cli/output/program_memory.h"
#include "cli/report/report.h"
#include "cli/verb.h"
#include "codegen/spec_numbers.h"
#include "driver/floor.h"
#include "runtime/log/units.h"

namespace hydrac::cli {

namespace {

struct Side {
  driver::Compiled compiled;
  runtime::RecordedChoices choices;  // of its lock file
};

std::optional<Side> side(const Arguments& arguments, size_t which) {
  Arguments one = arguments;
  one.positional = {arguments.positional[which]};
  std::optional<LockedSpec> locked = load_with_lock(one, LockFor::any_machine);
  if (!locked) return std::nullopt;
  complete_for_planning(locked->spec, memory_option(arguments));
  BuildOptions options = build_options(arguments);
  options.offline = true;
  return Side{plan_program(locked->spec, options).compiled, locked->choices};
}

std::string change(double a, double b) {
  if (a == 0 || a == b) return "";
  return fmt::format("{:+.1f}%", 100 * (b / a - 1));
}

void row(const std::string& name, const std::string& a, const std::string& b, const std::string& change) {
  fmt::print("{:<28} {:>16} {:>16} {:>9}\n", name, a, b, change);
}

void bytes_row(const std::string& name, int64_t a, int64_t b) {
  if (a == 0 && b == 0) return;
  row(name, runtime::human_bytes(static_cast<uint64_t>(a)), runtime::human_bytes(static_cast<uint64_t>(b)),
      change(static_cast<double>(a), static_cast<double>(b)));
}

void print_keys(const driver::Compiled& a, const driver::Compiled& b) {
  auto before = all_keys(a.spec), after = all_keys(b.spec);
  fmt::print("keys\n");
  std::set<std::string> names;
  for (const auto* keys : {&before, &after}) {
    for (const auto& [name, value] : *keys) names.insert(name);
  }
  for (const std::string& name : names) {
    if (before[name] != after[name])
      fmt::print("  {}: {} -> {}\n", name, before[name].empty() ? "-" : before[name],
                 after[name].empty() ? "-" : after[name]);
  }
}

void print_choices(const runtime::RecordedChoices& a, const runtime::RecordedChoices& b) {
  const std::vector<std::string> lines = differences(a, b, "in the first lock", "in the second");
  if (lines.empty()) return;
  fmt::print("\nchoices\n");
  for (const std::string& line : lines) fmt::print("  {}\n", line);
}

// A kernel with the constants that it names, and its launch.
struct LaunchedKernel {
  std::string text;
  program::Block block;
  std::vector<program::Grid> grids;
  bool operator==(const LaunchedKernel&) const = default;
};

std::map<std::string, LaunchedKernel> launched_kernels(const program::Program& program) {
  std::map<std::string, LaunchedKernel> kernels;
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const program::Kernel& kernel = program.kernels[k];
    kernels[kernel.name] = {codegen::program_constants(program, kernel.names) + kernel.text, kernel.block,
                            grids_of(program, static_cast<int>(k))};
  }
  return kernels;
}

// Kernels by what they compute: their names, and whether text or launch differ.
void print_kernels(const driver::Compiled& a, const driver::Compiled& b) {
  const std::map<std::string, LaunchedKernel> before = launched_kernels(a.program),
                                              after = launched_kernels(b.program);
  fmt::print("\nkernels\n");
  int same = 0;
  for (const auto& [name, kernel] : before) {
    const auto found = after.find(name);
    if (found == after.end()) {
      fmt::print("  gone     {}\n", name);
    } else if (found->second != kernel) {
      fmt::print("  changed  {}\n", name);
    } else {
      ++same;
    }
  }
  for (const auto& [name, kernel] : after) {
    if (!before.contains(name)) fmt::print("  new      {}\n", name);
  }
  fmt::print("  {} stay as they are\n", same);
}

void print_work(const driver::Compiled& a, const driver::Compiled& b) {
  const driver::StepWork before = driver::step_work(a), after = driver::step_work(b);
  fmt::print("\n");
  row("an optimizer step", "first", "second", "");
  row("calls", std::to_string(before.calls), std::to_string(after.calls),
      change(static_cast<double>(before.calls), static_cast<double>(after.calls)));
  row("flop", runtime::human_count(before.flop), runtime::human_count(after.flop),
      change(before.flop, after.flop));
  bytes_row("bytes moved", static_cast<int64_t>(before.bytes), static_cast<int64_t>(after.bytes));
  if (before.floor_seconds > 0 && after.floor_seconds > 0) {
    row("floor, ms", fmt::format("{:.3f}", before.floor_seconds * 1e3),
        fmt::format("{:.3f}", after.floor_seconds * 1e3), change(before.floor_seconds, after.floor_seconds));
  }
}

void print_memory(const driver::Compiled& a, const driver::Compiled& b) {
  fmt::print("\n");
  row("memory", "first", "second", "");
  bytes_row("arena", a.plan.device_bytes(), b.plan.device_bytes());
  if (a.plan.host_bytes + b.plan.host_bytes > 0) bytes_row("host", a.plan.host_bytes, b.plan.host_bytes);
  auto before = bytes_by_role(a), after = bytes_by_role(b);
  std::set<ir::Role> roles;
  for (const auto* bytes : {&before, &after}) {
    for (const auto& [role, count] : *bytes) roles.insert(role);
  }
  for (ir::Role role : roles) bytes_row("  " + std::string(to_string(role)), before[role], after[role]);
}

}  // namespace

int diff_specs(const Arguments& arguments) {
  const auto first = side(arguments, 0), second = side(arguments, 1);
  if (!first || !second) return kBadInput;
  const driver::Compiled &a = first->compiled, &b = second->compiled;
  print_keys(a, b);
  print_choices(first->choices, second->choices);
  print_kernels(a, b);
  print_work(a, b);
  print_memory(a, b);
  return kFine;
}

}  // namespace hydrac::cli
