#include "oracle/job/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "oracle/job/error.h"
#include "oracle/job/graph_reader.h"
#include "oracle/job/json_reader.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxSteps = std::int64_t{1} << 31;

std::vector<OptimizerSpec::Rows> read_rows(JsonReader& in, const std::string& key, const Value& parameter) {
  std::vector<OptimizerSpec::Rows> rows;
  for (const json& range : in.array(key)) {
    if (!range.is_array() || range.size() != 2 || !range[0].is_number_integer() ||
        !range[1].is_number_integer())
      throw JobError(fmt::format("{} must hold pairs of integers", in.place(key)));
    rows.push_back({range[0].get<std::int64_t>(), range[1].get<std::int64_t>()});
    if (rows.back().first < 0 || rows.back().count < 1 || parameter.shape.size() != 2 ||
        rows.back().first + rows.back().count > parameter.shape[0])
      throw JobError(fmt::format("{}: the parameter has no such rows", in.place(key)));
  }
  return rows;
}

OptimizerSpec read_optimizer(JsonReader in, const Graph& graph) {
  OptimizerSpec spec;
  spec.name = in.text("name");
  const bool muon = spec.name == "muon", adamw = spec.name == "adamw" || muon, lion = spec.name == "lion",
             sgd = spec.name == "sgd" || muon;
  if (!adamw && !lion && !sgd)
    throw JobError(
        fmt::format("{} is \"{}\"; it must be one of adamw, lion, sgd, muon", in.place("name"), spec.name));
  spec.learning_rate = in.number("learning_rate");
  spec.weight_decay = in.number("weight_decay", 0);
  // A spec may state all members; each optimizer needs its own and ignores the others, as their formulas do.
  spec.eps = adamw ? in.number("eps") : in.number("eps", 0);
  spec.momentum = sgd ? in.number("momentum") : in.number("momentum", 0);
  if (adamw || lion || in.has("betas")) {
    const json& betas = in.array("betas");
    if (betas.size() != 2 || !betas[0].is_number() || !betas[1].is_number())
      throw JobError(fmt::format("{} must be two numbers", in.place("betas")));
    spec.beta1 = betas[0].get<double>();
    spec.beta2 = betas[1].get<double>();
  }
  if (in.has("matrices")) {
    JsonReader matrices = in.object("matrices");
    for (const Value& value : graph.values) {
      if (value.role == Role::parameter && matrices.has(value.name))
        spec.matrices[value.name] = read_rows(matrices, value.name, value);
    }
    matrices.expect_no_more();
  }
  in.expect_no_more();
  return spec;
}

ScheduleSpec read_schedule(JsonReader in) {
  ScheduleSpec spec;
  spec.name = in.text("name");
  const bool wsd = spec.name == "wsd", adaptive = spec.name == "adaptive";
  if (spec.name == "function") spec.function = read_expression(in.object("function"));
  if (!spec.function && !wsd && !adaptive && spec.name != "constant" && spec.name != "linear" &&
      spec.name != "cosine")
    throw JobError(
        fmt::format("{} is \"{}\"; it must be one of constant, linear, cosine, wsd, adaptive, function",
                    in.place("name"), spec.name));
  spec.warmup_steps = in.integer("warmup_steps", 0, kMaxSteps, 0);
  spec.max_steps = in.integer("max_steps", 1, kMaxSteps);
  spec.min_ratio = in.number("min_ratio", 0);
  if (adaptive) {
    spec.patience = in.integer("patience", 1, kMaxSteps);
    spec.threshold = in.number("threshold", 0);
    spec.factor = in.number("factor", 0);
  }
  const std::int64_t after_warmup = std::max<std::int64_t>(0, spec.max_steps - spec.warmup_steps);
  spec.decay_steps =
      wsd ? in.integer("decay_steps", 0, kMaxSteps) : in.integer("decay_steps", 0, kMaxSteps, after_warmup);
  in.expect_no_more();
  return spec;
}

// The names in array `key`, each of which must be a value of the graph.
std::vector<std::string> read_names(JsonReader& in, const std::string& key, const Graph& graph) {
  std::vector<std::string> names;
  if (!in.has(key)) return names;
  for (const json& name : in.array(key)) {
    if (!name.is_string()) throw JobError(fmt::format("{} must hold strings", in.place(key)));
    const auto is_it = [&](const Value& value) { return value.name == name.get<std::string>(); };
    if (std::none_of(graph.values.begin(), graph.values.end(), is_it))
      throw JobError(fmt::format("{}: there is no value \"{}\"", in.place(key), name.get<std::string>()));
    names.push_back(name.get<std::string>());
  }
  return names;
}

// True if member `key` is `first`, which it also is when it is absent, and not `second`.
bool first_of_two(JsonReader& in, const std::string& key, const std::string& first,
                  const std::string& second) {
  const std::string text = in.has(key) ? in.text(key) : first;
  if (text != first && text != second)
    throw JobError(fmt::format("{} is \"{}\"; it must be {} or {}", in.place(key), text, first, second));
  return text == first;
}

std::optional<Float16> read_autocast(JsonReader& in) {
  if (!in.has("autocast")) return std::nullopt;
  return first_of_two(in, "autocast", "bf16", "fp16") ? Float16::bf16 : Float16::fp16;
}

RoundingSpec read_rounding(JsonReader in, const Graph& graph) {
  RoundingSpec spec;
  spec.site = static_cast<std::uint32_t>(in.integer("site", 0, UINT32_MAX));
  spec.weights = in.integer("weights", 0, 1) == 1;
  spec.moments = in.integer("moments", 0, 1) == 1;
  JsonReader places = in.object("places");
  for (const Value& value : graph.values) {
    if (value.role != Role::parameter) continue;
    JsonReader place = places.object(value.name);
    spec.places[value.name] = {static_cast<std::uint32_t>(place.integer("stream", 0, UINT32_MAX - 2)),
                               place.integer("first", 0, INT64_MAX), place.integer("stride", 0, INT64_MAX)};
    place.expect_no_more();
  }
  places.expect_no_more();
  in.expect_no_more();
  return spec;
}

QuantizedState read_quantized_state(JsonReader in, const Graph& graph) {
  QuantizedState state;
  state.block = in.integer("block", 1, INT64_MAX);
  const std::vector<std::string> names = read_names(in, "parameters", graph);
  state.parameters = {names.begin(), names.end()};
  in.expect_no_more();
  return state;
}

Job parse_job(const json& root) {
  JsonReader in(root, "");
  Job job;
  job.float64 = first_of_two(in, "dtype", "float64", "float32");
  job.peer_ops = !first_of_two(in, "ops", "reference", "peer");
  job.autocast = read_autocast(in);
  job.gradient_noise = in.number("gradient_noise", 0);
  job.threads = static_cast<int>(in.integer("threads", 1, 4096, 1));
  job.graph = read_graph(in);
  job.steps = static_cast<int>(in.integer("steps", 1, 1'000'000, 1));
  job.accumulation = static_cast<int>(in.integer("accumulation", 1, 1'000'000, 1));
  job.bench_steps = static_cast<int>(in.integer("bench_steps", 1, 1'000'000, 20));
  job.optimizer = read_optimizer(in.object("optimizer"), job.graph);
  job.schedule = read_schedule(in.object("lr_scheduler"));
  job.max_grad_norm = in.number("max_grad_norm", 0);
  const std::vector<std::string> decay = read_names(in, "decay", job.graph);
  job.decay = std::set<std::string>(decay.begin(), decay.end());
  job.dump = read_names(in, "dump", job.graph);
  job.seed = static_cast<std::uint32_t>(in.integer("seed", 0, UINT32_MAX, 0));
  if (in.has("rounding")) job.rounding = read_rounding(in.object("rounding"), job.graph);
  if (in.has("quantized_state"))
    job.quantized_state = read_quantized_state(in.object("quantized_state"), job.graph);
  in.expect_no_more();
  if (job.autocast && job.peer_ops)
    throw JobError("autocast casts around the reference's ops, not the peer's");
  return job;
}

}  // namespace

Job read_job(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw JobError(fmt::format("{}: cannot be opened", path.filename().string()));
  try {
    return parse_job(json::parse(file));
  } catch (const json::exception& e) {
    throw JobError(fmt::format("{}: not JSON: {}", path.filename().string(), e.what()));
  } catch (const JobError& e) {
    throw JobError(fmt::format("{}: {}", path.filename().string(), e.what()));
  }
}

}  // namespace hydrac::oracle
