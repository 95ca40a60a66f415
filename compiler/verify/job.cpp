#include "verify/job.h"

#include <fmt/format.h>

#include <deque>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "models/transformer.h"
#include "optimizers/moments.h"
#include "optimizers/rounding.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "runtime/program/initialize.h"
#include "verify/oracle_graph.h"
#include "verify/yardstick.h"

namespace hydrac::verify {

namespace {

Json schedule_json(const spec::Spec& spec) {
  const spec::LrScheduler& s = spec.train.lr_scheduler;
  Json json = {{"name", s.name.function ? "function" : to_string(s.name.word)},
               {"warmup_steps", s.warmup_steps},
               {"max_steps", spec.train.max_steps},
               {"min_ratio", s.min_ratio},
               {"decay_steps", s.decay_steps}};
  if (s.name.function) json["function"] = function_json(s.name.function->lifted);
  if (s.name == spec::Schedule::adaptive)
    json.update({{"patience", s.patience}, {"threshold", s.threshold}, {"factor", s.factor}});
  return json;
}

Json loss_json(const models::Model& model) {
  Json json = {{"value", model.graph.results.loss}};
  for (const models::LayerSum& sums : model.interface.layer_sums)
    if (sums.metric.name == models::kAuxiliaryLoss.name) json["auxiliary"] = sums.of_layer;
  return json;
}

// The forward graph alone, as the model builder makes it, without the padding that a GPU's has.
Json job_json(spec::Spec spec, int threads) {
  spec.target = "cpu";
  ir::Graph graph;
  models::Model model = models::declare_model(graph, spec);
  models::build_micro_step(model);
  const auto& o = spec.train.optimizer;
  Json decay = Json::array();
  for (const ir::Value& value : graph.values) {
    if (value.trains() && value.parameter->decay) decay.push_back(value.name);
  }
  Json matrices = Json::object();  // that are Muon's
  for (const ir::Value& value : graph.values) {
    if (o.name != spec::Optimizer::muon || !value.trains()) continue;
    for (const ir::RowRange& rows : value.parameter->matrices)
      matrices[value.name].push_back({rows.first, rows.count});
  }
  return {{"threads", threads},
          {"graph", graph_json(graph)},
          {"loss", loss_json(model)},
          {"accumulation", spec::micro_batches_of_step(spec)},
          {"optimizer",
           {{"name", spec::to_string(o.name)},
            {"learning_rate", o.learning_rate.value},
            {"betas", {o.betas[0], o.betas[1]}},
            {"eps", o.eps},
            {"weight_decay", o.weight_decay},
            {"momentum", o.momentum},
            {"matrices", matrices}}},
          {"lr_scheduler", schedule_json(spec)},
          {"max_grad_norm", spec.train.max_grad_norm},
          {"decay", decay},
          {"seed", static_cast<uint32_t>(spec.train.seed)}};
}

// The place of each parameter in the program's pack, by which the noise of its rounding is numbered.
Json rounding_json(const driver::Compiled& c) {
  Json places = Json::object();
  for (const ir::Value& value : c.graph.values) {
    if (!value.trains()) continue;
    const auto& groups = c.pack.groups;
    size_t group = groups.size() - 1;
    while (value.view->offset < groups[group].first_row * c.pack.row) --group;
    places[value.name] = {{"stream", optimizers::rounding_stream(static_cast<int64_t>(group), 0)},
                          {"first", value.view->offset - groups[group].first_row * c.pack.row},
                          {"stride", value.view->slot_stride}};
  }
  return {{"site", optimizers::kRoundingSite},
          {"weights", c.spec.optimizations.weights == spec::WeightType::bf16 ? 1 : 0},
          {"moments", optimizers::moment_type(c.spec) == ir::DType::bf16 ? 1 : 0},
          {"places", places}};
}

// The parameters whose moments are 8-bit codes.
Json quantized_state_json(const driver::Compiled& c) {
  Json names = Json::array();
  for (const models::ParameterGroup& group : c.pack.groups) {
    if (group.moments != ir::DType::u8) continue;
    for (const ir::ValueId member : group.members) names.push_back(c.graph.value(member).name);
  }
  return {{"block", models::kStateBlock}, {"parameters", names}};
}

void write_json(const std::filesystem::path& file, const Json& json) {
  std::ofstream out(file);
  out << json.dump(1) << "\n";
  out.close();
  if (!out) throw runtime::RunError("cannot write " + file.string());
}

runtime::TensorToWrite entry(const std::string& name, runtime::SafetensorsDtype dtype, const ir::Shape& shape,
                             const void* data) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : shape) sizes.push_back(dim.size);
  return runtime::raw_tensor_to_write(name, dtype, sizes, data);
}

}  // namespace

std::vector<float> read_unpadded(targets::Executable& program, ir::ValueId id, const ir::Value& parameter,
                                 int slot) {
  std::vector<float> data = program.read(id, slot);
  data.resize(static_cast<size_t>(element_count(unpadded_shape(parameter))));
  return data;
}

namespace {

// The matmuls that the program computes in 8 bits: those of linear layers that read the 8-bit copies of these
// weights, and attention nodes with the attribute fp8. The oracle knows the recipe itself, except for the
// initial scale of a gradient.
void add_fp8(const driver::Compiled& c, Json& graph) {
  std::set<std::string> read, written;
  bool attends = false;
  for (const ir::Region& region : c.graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      attends |= node.op == ir::Op::attention && node.optional_flag("fp8");
      if (node.op != ir::Op::gemm) continue;
      read.insert(c.graph.value(node.inputs[1]).name);
      if (is_f8(c.graph.value(node.inputs[0]).dtype)) written.insert(c.graph.value(node.outputs[0]).name);
    }
  }
  const auto& t = c.spec.train;
  const int64_t tokens = t.micro_batch_size * t.sequence_len * spec::micro_batches_of_step(c.spec);
  std::map<int, std::string> names;
  for (const Json& value : graph["values"]) names[value["id"]] = value["name"];
  for (Json& region : graph["regions"]) {
    for (Json& node : region["nodes"]) {
      if (node["op"] == "attention" && attends) node["attrs"]["fp8"] = {{"forward", true}};
      if (node["op"] != "linear") continue;
      const std::string& weight = names[node["inputs"][1]["value"]];
      const bool forward = read.contains(weight + ".f8e4m3"),
                 input_gradient = read.contains(weight + ".transposed.f8e4m3");
      if (!forward && !input_gradient) continue;
      node["attrs"]["fp8"] = {{"forward", forward},
                              {"input_gradient", input_gradient},
                              {"weight_gradient", written.contains("d_" + weight)},
                              {"gradient_start", 16.0 * static_cast<double>(tokens)}};
    }
  }
}

// Numbers that the program's initialize() draws for a slot.
std::vector<float> drawn(const runtime::ProgramLayout& layout, size_t stream) {
  const runtime::ParameterStart& start = layout.starts.at(stream);
  int64_t elements = 0;
  for (const runtime::Nf4Place& part : start.nf4) elements += part.elements;
  std::vector<float> numbers(static_cast<size_t>(elements));
  runtime::initialize_parameter(numbers, 0, start, layout.seed, static_cast<uint32_t>(stream));
  return numbers;
}

// True for matrices with 4-bit codes that the oracle quantizes itself, because they are random. It gets
// matrices from a file as the program has them.
bool oracle_quantizes(const driver::Compiled& c, const ir::Value& value) {
  return value.parameter && value.parameter->nf4 && !spec::begins_with_weights(c.spec);
}

void add_nf4(const driver::Compiled& c, Json& graph) {
  for (Json& entry : graph["values"]) {
    for (const ir::Value& value : c.graph.values) {
      if (entry["name"] != value.name || !oracle_quantizes(c, value)) continue;
      for (const ir::RowRange& part : value.parameter->nf4->parts) entry["nf4"].push_back(part.count);
    }
  }
}

// The program's parameters and constants as the oracle starts from them.
class StartTensors {
 public:
  explicit StartTensors(targets::Executable& program) : program_(program) {}

  // They point into this.
  std::vector<runtime::TensorToWrite> take() {
    std::vector<runtime::TensorToWrite> tensors;
    size_t stream = 0;  // parameters are numbered for their random numbers
    for (const ir::Value& value : program_.compiled().graph.values) {
      if (!value.parameter && value.role != ir::Role::constant) continue;
      for (int slot = 0; slot < value.slots; ++slot) {
        const std::vector<float>& data = data_.emplace_back(read(value, slot, stream));
        if (value.parameter) ++stream;
        tensors.push_back(entry(fmt::format("{}.{}", value.name, slot), runtime::SafetensorsDtype::f32,
                                unpadded_shape(value), data.data()));
      }
    }
    return tensors;
  }

 private:
  std::vector<float> read(const ir::Value& value, int slot, size_t stream) {
    return oracle_quantizes(program_.compiled(), value) ? drawn(program_.steps().layout(), stream)
                                                        : read_unpadded(program_, value.id, value, slot);
  }

  targets::Executable& program_;
  std::deque<std::vector<float>> data_;
};

// The inputs of every micro-batch m of step s, "<name>.s<s>.m<m>".
class BatchTensors {
 public:
  BatchTensors(const driver::Compiled& compiled, const Batches& batches)
      : compiled_(compiled), batches_(batches) {
    for (const auto& step : batches) inverses_.push_back(inverse_count(step));
    numbers_.resize(batches.size() * batches[0].size());
    std::iota(numbers_.begin(), numbers_.end(), 0);
  }

  // They point into this and into the batches.
  void append_to(std::vector<runtime::TensorToWrite>& tensors) const {
    for (size_t s = 0; s < batches_.size(); ++s)
      for (size_t m = 0; m < batches_[s].size(); ++m) append(s, m, tensors);
  }

 private:
  void append(size_t s, size_t m, std::vector<runtime::TensorToWrite>& tensors) const {
    using runtime::SafetensorsDtype;
    const runtime::Batch& batch = batches_[s][m];
    const ir::Graph& graph = compiled_.graph;
    const auto add = [&](ir::ValueId id, SafetensorsDtype dtype, const void* data) {
      if (id == ir::kNoValue) return;
      const ir::Value& value = graph.value(id);
      tensors.push_back(entry(fmt::format("{}.s{}.m{}", value.name, s, m), dtype, value.shape, data));
    };
    add(graph.inputs.tokens, SafetensorsDtype::i32, batch.tokens.data());
    add(graph.inputs.documents, SafetensorsDtype::i32, batch.documents.data());
    add(graph.inputs.positions, SafetensorsDtype::i32, batch.positions.data());
    add(graph.inputs.features, SafetensorsDtype::f32, batch.features.data());
    add(graph.inputs.targets, SafetensorsDtype::i32, batch.targets.data());
    add(graph.inputs.float_targets, SafetensorsDtype::f32, batch.float_targets.data());
    add(graph.inputs.inv_count, SafetensorsDtype::f32, &inverses_[s]);
    add(graph.inputs.target_weights, SafetensorsDtype::f32, batch.weights.data());
    // Programs that score replies have segments too, which no step reads.
    if (!batch.segments.empty()) add(graph.inputs.segments, SafetensorsDtype::i32, batch.segments.data());
    add(graph.inputs.chosen_reference, SafetensorsDtype::f32, batch.chosen_reference.data());
    add(graph.inputs.rejected_reference, SafetensorsDtype::f32, batch.rejected_reference.data());
    add(graph.state.step, SafetensorsDtype::i32, &numbers_[s]);
    add(graph.state.rng_step, SafetensorsDtype::i32, &numbers_[s * batches_[s].size() + m]);
  }

  const driver::Compiled& compiled_;
  const Batches& batches_;
  std::vector<float> inverses_;  // a step
  std::vector<int32_t>
      numbers_;  // a micro-batch, counted through all steps: rng_step; the first ones count steps
};

}  // namespace

void write_verify_job(const std::filesystem::path& dir, targets::Executable& program, const Batches& batches,
                      const Choices& choices) {
  const driver::Compiled& c = program.compiled();
  Json job = job_json(c.spec, c.threads);
  job["dtype"] = "float64";
  job["steps"] = batches.size();
  const Yardstick yardstick = yardstick_of(c.spec);
  if (!yardstick.autocast.empty()) job["autocast"] = yardstick.autocast;
  if (yardstick.gradient_noise > 0) job["gradient_noise"] = yardstick.gradient_noise;
  if (optimizers::rounds_stochastically(c.spec)) job["rounding"] = rounding_json(c);
  if (optimizers::moment_type(c.spec) == ir::DType::u8) job["quantized_state"] = quantized_state_json(c);
  if (c.spec.optimizations.precision == spec::Precision::fp8) add_fp8(c, job["graph"]);
  add_nf4(c, job["graph"]);
  write_json(dir / "job.json", job);

  StartTensors start(program);
  const BatchTensors inputs(c, batches);
  std::vector<runtime::TensorToWrite> tensors = start.take();
  inputs.append_to(tensors);
  for (const auto& [name, choice] : choices) {
    const ir::Value& value = c.graph.value(kept_choice(c.graph));
    tensors.push_back(entry(name, runtime::SafetensorsDtype::i32, choices_shape(value), choice.data()));
  }
  runtime::FileWriter file(dir / "tensors.safetensors");
  runtime::write_safetensors(file, std::move(tensors));
  file.close_durably();
}

void write_bench_job(const std::filesystem::path& dir, const spec::Spec& spec, int threads, int64_t steps) {
  Json job = job_json(spec, threads);
  job["dtype"] = "float32";
  job["bench_steps"] = steps;
  write_json(dir / "job.json", job);
}

}  // namespace hydrac::verify
