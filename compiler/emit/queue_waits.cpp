#include "emit/queue_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "codegen/operand_names.h"
#include "driver/accesses.h"
#include "emit/kernels/kernels.h"
#include "program/for_each_call.h"

namespace hydrac::emit {

namespace {

struct Unrolled {
  std::vector<program::QueueStep> steps;
  std::vector<CallPosition> positions;
  std::vector<const program::Call*> calls;
  std::vector<int> layers;
};

Unrolled unroll(const driver::Compiled& compiled, const program::Function& function) {
  Unrolled all;
  program::for_each_call(function,
                         [&](const program::Section& section, const program::Call& call, int, int layer) {
                           all.steps.push_back({driver::accesses(compiled, call, layer), call.queue});
                           all.positions.emplace_back(static_cast<int>(&section - function.sections.data()),
                                                      static_cast<int>(&call - section.calls.data()));
                           all.calls.push_back(&call);
                           all.layers.push_back(layer);
                         });
  return all;
}

// True if a call writes an argument: scratch memory that it counts among what it makes it may only read.
bool writes(const driver::Compiled& compiled, const program::Call& call, size_t argument) {
  const auto* launch = std::get_if<program::Launch>(&call.work);
  if (!call.writes[argument] || !launch) return call.writes[argument];
  const program::Kernel& kernel = compiled.program.kernels[static_cast<size_t>(launch->kernel)];
  return !kernel.parameters.at(argument).type.starts_with("const ");
}

// That one reads what the other makes says more than that memory is used again.
WaitReason reason_of(const driver::Compiled& compiled, const Unrolled& all, size_t waiting, size_t awaited) {
  std::optional<WaitReason> reason;
  const program::Call &call = *all.calls[waiting], &other_call = *all.calls[awaited];
  const auto& own = all.steps[waiting].accesses;
  const auto& other = all.steps[awaited].accesses;
  for (size_t i = 0; i < own.size(); ++i) {
    for (size_t j = 0; j < other.size(); ++j) {
      const bool meet = own[i].first < other[j].last && other[j].first < own[i].last;
      if (!meet || (!own[i].writes && !other[j].writes)) continue;
      const bool own_writes = writes(compiled, call, i);
      if (!reason || (!own_writes && reason->own_writes))
        reason = {call.arguments[i], other_call.arguments[j], own_writes, writes(compiled, other_call, j)};
    }
  }
  return reason.value();
}

// Loops' calls that all waiting calls of the same loop wait for two iterations later.
std::set<CallPosition> awaited_by_turns(const Unrolled& all, const std::vector<std::vector<int>>& waits) {
  std::map<CallPosition, bool> far;
  for (size_t i = 0; i < waits.size(); ++i) {
    for (const int step : waits[i]) {
      const auto awaited = static_cast<size_t>(step);
      if (all.positions[i].first != all.positions[awaited].first) continue;
      const bool is_far = std::abs(all.layers[i] - all.layers[awaited]) >= 2;
      const auto [found, is_new] = far.try_emplace(all.positions[awaited], is_far);
      found->second &= is_far;
    }
  }
  std::set<CallPosition> by_turns;
  for (const auto& [position, is_far] : far)
    if (is_far) by_turns.insert(position);
  return by_turns;
}

// A kernel's name, or that of the tensor that a matmul makes.
std::string name_of_call(const driver::Compiled& compiled, const program::Call& call) {
  if (const auto* launch = std::get_if<program::Launch>(&call.work))
    return compiled.program.kernels[static_cast<size_t>(launch->kernel)].name;
  return codegen::identifier(call.label);
}

}  // namespace

QueueWaits queue_waits(const driver::Compiled& compiled, const program::Function& function) {
  QueueWaits result;
  for (const program::Section& section : function.sections)
    for (const program::Call& call : section.calls)
      if (call.queue != program::Queue::main) result.forks.insert(call.queue);
  if (result.forks.empty()) return result;
  const Unrolled all = unroll(compiled, function);
  const std::vector<std::vector<int>> waits = program::waits_between_queues(all.steps);
  for (size_t i = 0; i < waits.size(); ++i) {
    for (const int step : waits[i]) {
      const auto awaited = static_cast<size_t>(step);
      result.waits[all.positions[i]].try_emplace(all.positions[awaited],
                                                 reason_of(compiled, all, i, awaited));
    }
  }
  result.by_turns = awaited_by_turns(all, waits);
  const auto call_at = [&](const CallPosition& position) -> const program::Call& {
    return function.sections[static_cast<size_t>(position.first)].calls[static_cast<size_t>(position.second)];
  };
  std::map<std::string, std::set<CallPosition>> named;
  for (const auto& [waiting, awaited] : result.waits) {
    for (const auto& [position, reason] : awaited)
      named["after_" + name_of_call(compiled, call_at(position))].insert(position);
  }
  for (const auto& [name, positions] : named) {
    std::map<std::string, int> taken;
    for (const CallPosition& position : positions) {
      const std::string label = codegen::identifier(call_at(position).label);
      std::string own = name;
      if (positions.size() > 1)
        own +=
            name != "after_" + label
                ? "_of_" + label
                : "_in_" + codegen::identifier(function.sections[static_cast<size_t>(position.first)].name);
      const int count = ++taken[own];
      result.marks[position] = count == 1 ? own : fmt::format("{}_{}", own, count);
      if (result.by_turns.contains(position)) result.marks[position] += "_by_turns";
    }
  }
  return result;
}

}  // namespace hydrac::emit
