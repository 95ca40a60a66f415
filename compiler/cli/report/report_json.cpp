#include "cli/report/report_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/report/report.h"
#include "driver/floor.h"
#include "spec/print.h"
#include "targets/executable/program_layout.h"

namespace hydrac::cli {

namespace {

using Json = nlohmann::ordered_json;

Json shape_json(const ir::Shape& shape) {
  Json sizes = Json::array();
  for (const ir::Dim& dim : shape) sizes.push_back(dim.size);
  return sizes;
}

Json memory_json(const driver::Compiled& c, const driver::MemoryLimit& limit) {
  Json roles = Json::object();
  for (const auto& [role, bytes] : bytes_by_role(c)) roles[std::string(to_string(role))] = bytes;
  Json alive = Json::object();
  for (const auto& [function, bytes] : c.plan.live_bytes) alive[function] = bytes;
  const bool known = limit.bytes > 0;
  return {{"arena_bytes", c.plan.device_bytes()},
          {"host_bytes", c.plan.host_bytes},
          {"bytes", roles},
          {"most_alive_bytes", alive},
          {"limit_bytes", known ? Json(limit.bytes) : Json(nullptr)},
          {"fits", known ? Json(limit.allows(c.plan.device_bytes())) : Json(nullptr)}};
}

Json call_json(const driver::Compiled& c, const program::Call& call) {
  Json json = {{"kernel", program::is<program::Gemm>(call) ? "gemm" : name_of(c.program, call)},
               {"output", call.label}};
  if (const program::GemmShape* matmul = matmul_of(call)) {
    json["gemm"] = {{"m", matmul->m},
                    {"n", matmul->n},
                    {"k", matmul->k},
                    {"batch", matmul->batch},
                    {"transpose_a", matmul->transpose_a},
                    {"transpose_b", matmul->transpose_b},
                    {"accumulate", matmul->accumulate}};
  }
  json["flop"] = call.flop;
  json["bytes"] = call.bytes;
  json["multiplies_matrices"] = call.multiplies_matrices;
  const driver::Peaks peaks = driver::peaks_of(*targets::find(c.spec.target), c.spec.optimizations.precision);
  const double floor = driver::floor_seconds(peaks, call);
  json["floor_seconds"] = peaks.bytes_per_second > 0 ? Json(floor) : Json(nullptr);
  return json;
}

Json functions_json(const driver::Compiled& c) {
  Json functions = Json::array();
  for (const program::Function& function : c.program.functions) {
    Json sections = Json::array();
    for (const program::Section& section : function.sections) {
      Json calls = Json::array();
      for (const program::Call& call : section.calls) calls.push_back(call_json(c, call));
      sections.push_back(
          {{"name", section.name}, {"iterations", std::max(section.layers, 1)}, {"calls", std::move(calls)}});
    }
    functions.push_back({{"name", function.name}, {"sections", std::move(sections)}});
  }
  return functions;
}

Json tensors_json(const driver::Compiled& c) {
  std::vector<std::pair<ir::ValueId, plan::Placement>> order(c.plan.placements.begin(),
                                                             c.plan.placements.end());
  std::ranges::stable_sort(order, {}, [](const auto& entry) { return entry.second.offset; });
  Json tensors = Json::array();
  for (const auto& [id, placement] : order) {
    const ir::Value& value = c.graph.value(id);
    Json alive = nullptr;
    if (const auto found = c.plan.intervals.find(id); found != c.plan.intervals.end()) {
      alive = Json::array();
      for (const plan::Interval& interval : found->second)
        alive.push_back(Json::array({interval.first, interval.last}));
    }
    tensors.push_back({{"name", value.name},
                       {"role", to_string(value.role)},
                       {"dtype", to_string(value.dtype)},
                       {"shape", shape_json(value.shape)},
                       {"slots", placement.slots},
                       {"offset", placement.offset},
                       {"bytes", placement.bytes()},
                       {"alive", std::move(alive)}});
  }
  return tensors;
}

Json decisions_json(const driver::Compiled& c) {
  Json decisions = Json::array();
  for (const passes::Decision& decision : c.decisions)
    decisions.push_back({{"pass", decision.pass}, {"text", decision.text}});
  return decisions;
}

// Choices of optimizations.fit; null if nothing was open.
Json fit_json(const driver::Compiled& c) {
  Json lines = Json::array();
  for (const passes::Decision& decision : c.decisions)
    if (decision.pass == "fit") lines.push_back(decision.text);
  return lines.empty() ? Json(nullptr) : lines;
}

Json ranks_json(const driver::Compiled& c) {
  Json ranks = {{"count", spec::rank_count(c.spec)},
                {"tensor", c.spec.parallel.tensor},
                {"zero", c.spec.parallel.zero},
                {"bytes_sent_per_step", driver::bytes_sent_per_step(c)}};
  if (const double seconds = driver::sending_seconds(c); seconds > 0) ranks["sending_ms"] = 1e3 * seconds;
  return ranks;
}

Json common_json(const driver::Compiled& c, const driver::MemoryLimit& limit) {
  return {{"spec", Json::parse(spec::to_json(c.spec))},
          {"parameters", targets::parameter_count(c)},
          {"recompute", to_string(c.recompute)},
          {"recompute_layers", c.recompute.layers},
          {"fit", fit_json(c)},
          {"memory", memory_json(c, limit)},
          {"ranks", ranks_json(c)}};
}

}  // namespace

std::string check_json(const driver::Compiled& compiled, const driver::MemoryLimit& limit) {
  return common_json(compiled, limit).dump(2) + "\n";
}

std::string explain_json(const driver::Compiled& compiled, const driver::MemoryLimit& limit) {
  Json json = common_json(compiled, limit);
  json["functions"] = functions_json(compiled);
  json["tensors"] = tensors_json(compiled);
  json["decisions"] = decisions_json(compiled);
  return json.dump(2) + "\n";
}

}  // namespace hydrac::cli
