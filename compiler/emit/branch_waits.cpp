#include "emit/branch_waits.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/operand_names.h"
#include "driver/accesses.h"
#include "program/branches.h"
#include "program/for_each_call.h"

namespace hydrac::emit {

namespace {

struct Unrolled {
  std::vector<program::BranchStep> steps;
  std::vector<CallPosition> positions;
};

Unrolled unroll(const driver::Compiled& compiled, const program::Function& function) {
  Unrolled all;
  program::for_each_call(function,
                         [&](const program::Section& section, const program::Call& call, int, int layer) {
                           all.steps.push_back({driver::accesses(compiled, call, layer), call.branch});
                           all.positions.emplace_back(static_cast<int>(&section - function.sections.data()),
                                                      static_cast<int>(&call - section.calls.data()));
                         });
  return all;
}

}  // namespace

BranchWaits branch_waits(const driver::Compiled& compiled, const program::Function& function) {
  BranchWaits result;
  for (const program::Section& section : function.sections)
    result.has_two |=
        std::ranges::any_of(section.calls, [](const program::Call& c) { return c.branch == 1; });
  if (!result.has_two) return result;
  const Unrolled all = unroll(compiled, function);
  const std::vector<int> waits = program::waits_between_branches(all.steps);
  for (size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] >= 0) result.waits[all.positions[i]].insert(all.positions[static_cast<size_t>(waits[i])]);
  }
  std::map<std::string, int> taken;
  for (const auto& [waiting, awaited] : result.waits) {
    for (const CallPosition& position : awaited) {
      if (result.marks.contains(position)) continue;
      const program::Section& section = function.sections[static_cast<size_t>(position.first)];
      const std::string name =
          "after_" + codegen::identifier(section.calls[static_cast<size_t>(position.second)].label);
      const int count = ++taken[name];
      result.marks[position] = count == 1 ? name : fmt::format("{}_{}", name, count);
    }
  }
  return result;
}

}  // namespace hydrac::emit
