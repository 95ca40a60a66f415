#include "cli/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "driver/floor.h"
#include "program/for_each_call.h"
#include "runtime/log/units.h"
#include "targets/executable/program_layout.h"

namespace hydrac::cli {

namespace {

std::string bytes_text(int64_t bytes) {
  return runtime::human_bytes(static_cast<uint64_t>(bytes));
}

std::string interval_text(const std::vector<plan::Interval>& intervals) {
  if (intervals.empty()) return "always";
  std::string text = fmt::format("steps {}-{}", intervals.front().first, intervals.front().last - 1);
  if (intervals.size() == 2) text += fmt::format(", {}-{}", intervals[1].first, intervals[1].last - 1);
  if (intervals.size() > 2) {
    text +=
        fmt::format(", {}-{}, ... ({} times)", intervals[1].first, intervals[1].last - 1, intervals.size());
  }
  return text;
}

// For a cache in pages.
std::string cache_summary(const driver::Compiled& c, const std::string& prefix) {
  const models::CacheInterface& io = c.interface.cache;
  const ir::ValueId pages = c.graph.inputs.page_table;
  if (pages == ir::kNoValue) return "";
  const ir::Shape &keys = c.graph.value(io.keys).shape, &table = c.graph.value(pages).shape;
  const int64_t bytes = c.plan.placements.at(io.keys).bytes() + c.plan.placements.at(io.values).bytes();
  return fmt::format(
      "{}  {:<14} {:>16} bytes   {}, keys and values: {} pages of {} tokens, {} tokens that {} texts share\n",
      prefix, "pool", bytes, bytes_text(bytes), keys[0].size, keys[2].size, keys[0].size * keys[2].size,
      table[0].size);
}

std::string held_by_host(const driver::Compiled& c) {
  const auto& offload = c.spec.optimizations.offload;
  std::vector<std::string> parts;
  if (offload.optimizer_state.any()) parts.emplace_back("optimizer state");
  if (offload.activations) parts.emplace_back("activations");
  if (offload.weights > 0) parts.push_back(fmt::format("weights of {} layers", offload.weights));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::map<ir::Role, int64_t> bytes_by_role(const driver::Compiled& c) {
  std::map<ir::Role, int64_t> bytes;
  for (const auto& [id, placement] : c.plan.placements) {
    const ir::Role role = c.graph.value(id).role;
    if (role != ir::Role::activation && !c.graph.value(id).on_host) bytes[role] += placement.bytes();
  }
  if (c.plan.kept_bytes > 0) bytes[ir::Role::optimizer_state] += c.plan.kept_bytes;
  bytes[ir::Role::activation] =
      c.plan.device_bytes() - c.plan.persistent_bytes - c.plan.kept_bytes - c.plan.exchange_bytes;
  return bytes;
}

namespace {

// Lists what a rank holds for some parameters alone.
std::string shared_of(const models::Pack& pack) {
  std::vector<std::string> parts = {"the optimizer's state"};
  if (pack.is_divided && pack.matmuls != ir::DType::f32) parts.emplace_back("fp32 values");
  if (pack.shards_gradients) parts.emplace_back("gradients");
  if (pack.shards_weights) parts.emplace_back("layers' weights");
  const std::string last = parts.back();
  parts.pop_back();
  return parts.empty() ? last : fmt::format("{} and {}", fmt::join(parts, ", "), last);
}

}  // namespace

std::string memory_summary(const driver::Compiled& c, const std::string& prefix) {
  const int64_t all = targets::parameter_count(c), trained = targets::trained_count(c);
  std::string text = fmt::format("{}{} parameters{}\n", prefix, all,
                                 trained < all ? fmt::format(", of which {} train", trained) : "");
  text += fmt::format("{}{:<16} {:>16} bytes   {}\n", prefix, "arena", c.plan.device_bytes(),
                      bytes_text(c.plan.device_bytes()));
  for (const auto& [role, bytes] : bytes_by_role(c)) {
    text += fmt::format("{}  {:<14} {:>16} bytes   {}{}\n", prefix, to_string(role), bytes, bytes_text(bytes),
                        role == ir::Role::activation ? ", shared by what is never alive at once" : "");
  }
  for (const auto& [function, bytes] : c.plan.live_bytes) {
    text +=
        fmt::format("{}    {:<12} {:>16} bytes   alive at once at most in {}\n", prefix, "", bytes, function);
  }
  if (c.plan.exchange_bytes > 0)
    text += fmt::format("{}  {:<14} {:>16} bytes   {}, of numbers that ranks copy from each other\n", prefix,
                        "exchange", c.plan.exchange_bytes, bytes_text(c.plan.exchange_bytes));
  text += cache_summary(c, prefix);
  if (c.plan.host_bytes > 0)
    text += fmt::format("{}{:<16} {:>16} bytes   {}, in the host's memory: {}\n", prefix, "host",
                        c.plan.host_bytes, bytes_text(c.plan.host_bytes), held_by_host(c));
  if (const int64_t ranks = spec::rank_count(c.spec); ranks > 1) {
    const double seconds = driver::sending_seconds(c);
    const bool is_shared = c.pack.sharing_ranks > 1;
    if (c.spec.parallel.tensor > 1)
      text += fmt::format("{}of each layer {} ranks have a part each; a rank has {} of the parameters\n",
                          prefix, c.spec.parallel.tensor, targets::own_parameter_count(c));
    text += fmt::format(
        "{}{} ranks have such an arena each{}{}; a rank sends {} of {} a step{}\n", prefix, ranks,
        targets::find(c.spec.target)->is_cpu()
            ? fmt::format(", {} in all", bytes_text(ranks * c.plan.device_bytes()))
            : ", on a GPU of its own",
        is_shared ? fmt::format(", and {} of 1/{} of the parameters", shared_of(c.pack), ranks) : "",
        bytes_text(driver::bytes_sent_per_step(c)), is_shared ? "sums and parameters" : "sums",
        seconds > 0 ? fmt::format(", about {:.1f} ms over their links", 1e3 * seconds) : "");
  }
  return text;
}

std::string call_table(const driver::Compiled& c) {
  std::string text;
  for (const program::Function& function : c.program.functions) {
    text += fmt::format("{}\n", function.name);
    for (const program::Section& section : function.sections) {
      text += fmt::format("  {}{}\n", section.name,
                          section.layers > 0 ? fmt::format(" x {}", section.layers) : "");
      for (const program::Call& call : section.calls) {
        const ir::Value& out = c.graph.value(c.graph.find(call.label));
        text += fmt::format("    {:<52} {:<28} {:<16} {:>9} flop {:>11}\n", name_of(c.program, call),
                            call.label, symbols_of(out.shape), runtime::human_count(call.flop),
                            bytes_text(static_cast<int64_t>(call.bytes)));
      }
    }
  }
  return text;
}

std::string memory_map(const driver::Compiled& c) {
  std::vector<std::pair<plan::Placement, ir::ValueId>> order;
  for (const auto& [id, placement] : c.plan.placements) order.emplace_back(placement, id);
  std::ranges::stable_sort(order, {}, [](const auto& entry) { return entry.first.offset; });
  std::string text = fmt::format("{:>14} {:>14}  {:<32} {:<20} {:<16} alive\n", "offset", "bytes", "tensor",
                                 "shape", "role");
  for (const auto& [placement, id] : order) {
    const ir::Value& value = c.graph.value(id);
    const auto intervals = c.plan.intervals.find(id);
    const std::string slots = value.slots == 1 ? "" : fmt::format(" x {}", placement.slots);
    text += fmt::format("{:>14} {:>14}  {:<32} {:<20} {:<16} {}\n", placement.offset, placement.bytes(),
                        value.name, symbols_of(value.shape) + slots, to_string(value.role),
                        interval_text(intervals == c.plan.intervals.end() ? std::vector<plan::Interval>{}
                                                                          : intervals->second));
  }
  for (const ir::Value& value : c.graph.values) {
    if (!value.view || value.role != ir::Role::activation) continue;
    text += fmt::format("{:>30}  {:<32} lies in {}\n", "", value.name,
                        c.graph.value(storage_of(c.graph, value.id)).name);
  }
  return text;
}

std::string decisions(const driver::Compiled& c) {
  std::string text, pass;
  for (const passes::Decision& decision : c.decisions) {
    if (decision.pass != pass) text += decision.pass + "\n";
    pass = decision.pass;
    text += "  " + decision.text + "\n";
  }
  return text;
}

}  // namespace hydrac::cli
