#include "verify/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "models/transformer.h"
#include "optimizers/moments.h"
#include "optimizers/rounding.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "runtime/program/initialize.h"
#include "verify/yardstick.h"

namespace hydrac::verify {

namespace {

using Json = nlohmann::ordered_json;

Json use_json(ir::Use use) {
  if (use.value == ir::kNoValue) return nullptr;
  return {{"value", use.value}, {"slot", use.slot.per_layer ? "layer" : "fixed"}, {"offset", use.slot.index}};
}

// A user's function as data: [op, positions of arguments earlier in the list...]; a number or a parameter's
// position in their place where the op has one.
Json function_json(const functions::Function& function) {
  Json nodes = Json::array();
  for (const functions::Node& node : function.nodes) {
    Json json = Json::array({to_string(node.op)});
    if (node.op == functions::Op::argument) json.push_back(node.parameter);
    if (node.op == functions::Op::constant) json.push_back(node.number);
    for (const int arg : node.args) json.push_back(arg);
    if (node.op == functions::Op::pow) json.push_back(node.number);
    nodes.push_back(std::move(json));
  }
  return {{"parameters", function.parameters.size()}, {"nodes", nodes}, {"result", function.result}};
}

struct AttributeJson {
  Json operator()(const std::shared_ptr<const functions::Function>& function) const {
    return function_json(*function);
  }
  template <class T>
  Json operator()(const T& value) const {
    return value;
  }
};

Json attributes_json(const ir::Node& node) {
  Json attributes = Json::object();
  for (const auto& [key, value] : node.attributes) attributes[key] = std::visit(AttributeJson{}, value);
  return attributes;
}

Json node_json(const std::string& op, Json attributes, const std::vector<ir::Use>& inputs, ir::Use output) {
  Json in = Json::array();
  for (ir::Use use : inputs) in.push_back(use_json(use));
  return {{"op", op},
          {"attrs", std::move(attributes)},
          {"inputs", std::move(in)},
          {"outputs", {use_json(output)}}};
}

// For the oracle a causal convolution is one operation: the matmul of all taps, `matmul`, with each part of
// the sums over them.
void append_convolutions(const ir::Graph& graph, const ir::Node& matmul, const ir::Node& sums, Json& nodes) {
  int64_t first = 0;
  for (ir::Use part : sums.outputs) {
    nodes.push_back(node_json("causal_conv", {{"taps", sums.integer("taps")}, {"first", first}},
                              {matmul.inputs[0], matmul.inputs[1]}, part));
    const ir::Shape& shape = graph.value(part).shape;
    first += ir::element_count({shape.begin() + 2, shape.end()});
  }
}

// Our forward ops in the oracle's words. Statistics that ops keep for their gradients are not its business,
// nor are the random seed (it is the job's) and what says how we compute.
void append_node(const ir::Graph& graph, const ir::Node& node, Json& nodes) {
  std::string op = node.op;
  Json attributes = attributes_json(node);
  attributes.erase("input_name");
  std::vector<ir::Use> inputs = node.inputs;
  if (op == "split_qkv") {
    int64_t offset = 0;
    for (ir::Use part : node.outputs) {
      const ir::Shape& shape = graph.value(part).shape;
      nodes.push_back(node_json("split_heads",
                                {{"offset", offset}, {"heads", shape[2].size}, {"head_dim", shape[3].size}},
                                inputs, part));
      offset += shape[2].size * shape[3].size;
    }
    return;
  }
  if (attributes.contains("function")) {
    nodes.push_back(node_json(op, Json::object(), inputs, node.outputs[0]));
    nodes.back()["function"] = attributes["function"];
    return;
  }
  if (op == "activation" || op == "gated") {
    op = attributes["kind"].get<std::string>();
    attributes.erase("kind");
    if (op == "geglu") attributes["tanh"] = false;
    if (op == "geglu_tanh") {
      op = "geglu";
      attributes["tanh"] = true;
    }
  }
  if (op == "value_shift") attributes.erase("inverse");
  if (op == "rope") {
    attributes.erase("inverse");
    if (attributes.contains("factor")) {
      Json scaling;
      for (const char* key :
           {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
        scaling[key] = attributes[key];
        attributes.erase(key);
      }
      attributes["scaling"] = scaling;
    }
  }
  if (op == "mean_loss") {
    attributes.erase("accumulate");
    if (inputs.size() > 2) inputs.erase(inputs.begin() + 2);  // the loss scale changes no loss
  }
  if (op == "dropout" || op == "attention")
    inputs.erase(inputs.begin() + (op == "dropout" ? 2 : 4));  // rng_seed
  nodes.push_back(node_json(op, std::move(attributes), inputs, node.outputs[0]));
}

// The "sum_taps" that reads what the node makes, if one does.
const ir::Node* tap_sums_of(const ir::Region& region, const ir::Node& node) {
  const auto found = std::ranges::find_if(region.nodes, [&](const ir::Node& reader) {
    return reader.op == "sum_taps" && reader.inputs[0] == node.outputs[0];
  });
  return found == region.nodes.end() ? nullptr : &*found;
}

// What makes the products that a "sum_taps" reads.
const ir::Node& matmul_of(const ir::Region& region, const ir::Node& sums) {
  return *std::ranges::find_if(region.nodes,
                               [&](const ir::Node& node) { return tap_sums_of(region, node) == &sums; });
}

// Attention's output has a dimension for heads there, also where it is dropped out; the linear layer that
// reads it flattens it.
std::map<ir::ValueId, ir::Shape> attention_shapes(const ir::Graph& graph) {
  std::map<ir::ValueId, ir::Shape> shapes;
  for (const ir::Region& region : graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      if (node.op == "attention") shapes[node.outputs[0].value] = graph.value(node.inputs[0]).shape;
      const auto found = shapes.find(node.inputs.empty() ? ir::kNoValue : node.inputs[0].value);
      if (node.op == "dropout" && found != shapes.end()) shapes[node.outputs[0].value] = found->second;
    }
  }
  return shapes;
}

// Rows of a parameter that padding appended are no business of the oracle's.
ir::Shape unpadded_shape(const ir::Value& value) {
  ir::Shape shape = value.shape;
  if (value.parameter) shape[0].size = models::checkpoint_rows(value);
  return shape;
}

// What the forward pass reads and writes. Not the random seed, which is the job's, and not the loss scale,
// which changes the gradients' size only.
std::set<ir::ValueId> used_values(const ir::Graph& graph) {
  std::set<ir::ValueId> used;
  for (const ir::Region& region : graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      for (ir::Use use : node.inputs) used.insert(use.value);
      for (ir::Use use : node.outputs) used.insert(use.value);
    }
  }
  used.erase(graph.find("rng_seed"));
  used.erase(graph.find("loss_scale"));
  return used;
}

Json graph_json(const ir::Graph& graph) {
  const std::set<ir::ValueId> used = used_values(graph);
  const std::map<ir::ValueId, ir::Shape> with_heads = attention_shapes(graph);
  Json values = Json::array();
  for (const ir::Value& value : graph.values) {
    const auto found = with_heads.find(value.id);
    Json shape = Json::array();
    for (const ir::Dim& dim : found == with_heads.end() ? unpadded_shape(value) : found->second)
      shape.push_back(dim.size);
    std::string role(to_string(value.role));
    if (!used.contains(value.id)) continue;
    if (value.role == ir::Role::state) role = value.name == "rng_step" ? "input" : "activation";
    // Only parameters and inputs are known by name there, and those names are unique here.
    const std::string name = role == "activation" ? fmt::format("{}#{}", value.name, value.id) : value.name;
    values.push_back({{"id", value.id},
                      {"name", name},
                      {"dtype", to_string(value.dtype)},
                      {"shape", shape},
                      {"slots", value.slots},
                      {"role", role}});
    if (value.name == "residual" && !value.exact) values.back()["narrow"] = 1;
  }
  Json regions = Json::array();
  for (const ir::Region& region : graph.function("micro_step").regions) {
    Json nodes = Json::array();
    for (const ir::Node& node : region.nodes) {
      if (tap_sums_of(region, node)) continue;
      if (node.op == "sum_taps")
        append_convolutions(graph, matmul_of(region, node), node, nodes);
      else
        append_node(graph, node, nodes);
    }
    regions.push_back({{"name", region.name},
                       {"layers", region.layers},
                       {"first_layer", region.first_layer},
                       {"nodes", nodes}});
  }
  return {{"values", values}, {"regions", regions}};
}

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
          {"loss", {{"value", model.interface.loss}}},
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

// Where the program keeps each parameter in its pack, by which the noise of its rounding is numbered.
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

// About sixteen documents a sequence.
void add_documents(const spec::Spec& spec, std::mt19937_64& random, runtime::Batch& batch) {
  const int64_t length = spec.train.sequence_len;
  const auto most = static_cast<uint64_t>(std::max<int64_t>(2, length / 8));
  for (int64_t row = 0; row < spec.train.micro_batch_size; ++row) {
    for (int64_t begin = 0, end = 0; begin < length; begin = end) {
      end = std::min(length, begin + 1 + static_cast<int64_t>(random() % most));
      for (int64_t i = begin; i < end; ++i) {
        batch.documents.insert(batch.documents.end(),
                               {static_cast<int32_t>(begin), static_cast<int32_t>(end)});
        batch.positions.push_back(static_cast<int32_t>(i - begin));
      }
    }
  }
}

}  // namespace

Batches random_batches(const spec::Spec& spec, int64_t steps, uint64_t seed) {
  std::mt19937_64 random(seed);
  const spec::Model& m = spec.model;
  const int64_t positions = spec.train.micro_batch_size * spec.train.sequence_len;
  auto below = [&](int64_t n) { return static_cast<int32_t>(random() % static_cast<uint64_t>(n)); };
  auto number = [&] {
    return static_cast<float>(static_cast<double>(random() >> 11) / 4503599627370496.0 - 1);
  };
  Batches batches(static_cast<size_t>(steps));
  for (auto& step : batches) {
    step.resize(static_cast<size_t>(spec::micro_batches_of_step(spec)));
    for (runtime::Batch& batch : step) {
      for (int64_t i = 0; i < positions; ++i) {
        if (m.input == spec::Input::tokens)
          batch.tokens.push_back(below(m.vocab_size));
        else
          for (int64_t f = 0; f < m.num_features; ++f) batch.features.push_back(number());
        const bool counts = i == 0 || below(8) != 0;
        if (m.head == spec::Head::regression) {
          for (int64_t o = 0; o < m.num_labels; ++o) {
            const bool given = i == 0 || below(8) != 0;
            batch.float_targets.push_back(given ? number() : NAN);
            batch.target_count += given;
          }
          continue;
        }
        batch.targets.push_back(
            counts ? below(m.head == spec::Head::language_model ? m.vocab_size : m.num_labels)
                   : runtime::kIgnoredTarget);
        batch.target_count += counts;
      }
      if (spec.data.document_mask) add_documents(spec, random, batch);
      if (!spec::has_objective(spec)) continue;
      for (int64_t i = 0; i < positions; ++i) batch.weights.push_back(number());
    }
  }
  return batches;
}

float inverse_count(const std::vector<runtime::Batch>& step) {
  int64_t count = 0;
  for (const runtime::Batch& batch : step) count += batch.target_count;
  return 1.0f / static_cast<float>(count);
}

namespace {

// Which matmuls of a linear layer the program computes with 8 bits: those that read the weight's copies of
// these names. The oracle has the recipe itself, but for where a gradient's scale starts.
void add_fp8(const driver::Compiled& c, Json& graph) {
  std::set<std::string> read, written;
  for (const ir::Region& region : c.graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      if (node.op != "gemm") continue;
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

}  // namespace

namespace {

// What the program's initialize() draws for a slot.
std::vector<float> drawn(const runtime::ProgramLayout& layout, size_t stream) {
  const runtime::ParameterStart& start = layout.starts.at(stream);
  int64_t elements = 0;
  for (const runtime::Nf4Place& part : start.nf4) elements += part.elements;
  std::vector<float> numbers(static_cast<size_t>(elements));
  runtime::initialize_parameter(numbers, 0, start, layout.seed, static_cast<uint32_t>(stream));
  return numbers;
}

// Matrices that the program keeps as 4-bit codes, the oracle quantizes itself, where they are random ones.
// Those of a file it gets as the program has them.
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

}  // namespace

void write_verify_job(const std::filesystem::path& dir, targets::Executable& program,
                      const Batches& batches) {
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

  std::vector<runtime::TensorToWrite> tensors;
  std::vector<std::vector<float>> copies;
  size_t stream = 0;  // parameters are numbered for their random numbers
  for (const ir::Value& value : c.graph.values) {
    if (!value.parameter && value.role != ir::Role::constant) continue;
    for (int slot = 0; slot < value.slots; ++slot) {
      copies.push_back(oracle_quantizes(c, value) ? drawn(program.steps().layout(), stream)
                                                  : read_unpadded(program, value.id, value, slot));
      if (value.parameter) ++stream;
    }
  }
  size_t next = 0;
  for (const ir::Value& value : c.graph.values) {
    if (!value.parameter && value.role != ir::Role::constant) continue;
    for (int slot = 0; slot < value.slots; ++slot) {
      tensors.push_back(entry(fmt::format("{}.{}", value.name, slot), runtime::SafetensorsDtype::f32,
                              unpadded_shape(value), copies[next++].data()));
    }
  }
  std::vector<int32_t> rng_steps(batches.size() * batches[0].size());
  std::vector<float> inverses(batches.size());
  for (size_t s = 0; s < batches.size(); ++s) {
    inverses[s] = inverse_count(batches[s]);
    for (size_t m = 0; m < batches[s].size(); ++m) {
      const runtime::Batch& batch = batches[s][m];
      const std::string suffix = fmt::format(".s{}.m{}", s, m);
      const size_t micro = s * batches[s].size() + m;
      rng_steps[micro] = static_cast<int32_t>(micro);
      auto add = [&](ir::ValueId id, runtime::SafetensorsDtype dtype, const void* data) {
        if (id != ir::kNoValue)
          tensors.push_back(entry(c.graph.value(id).name + suffix, dtype, c.graph.value(id).shape, data));
      };
      add(c.interface.tokens, runtime::SafetensorsDtype::i32, batch.tokens.data());
      add(c.interface.documents, runtime::SafetensorsDtype::i32, batch.documents.data());
      add(c.interface.positions, runtime::SafetensorsDtype::i32, batch.positions.data());
      add(c.interface.features, runtime::SafetensorsDtype::f32, batch.features.data());
      const bool classes = c.graph.value(c.interface.targets).dtype == ir::DType::i32;
      if (classes)
        add(c.interface.targets, runtime::SafetensorsDtype::i32, batch.targets.data());
      else
        add(c.interface.targets, runtime::SafetensorsDtype::f32, batch.float_targets.data());
      add(c.interface.inv_count, runtime::SafetensorsDtype::f32, &inverses[s]);
      add(c.interface.objective.weights, runtime::SafetensorsDtype::f32, batch.weights.data());
      add(c.interface.rng_step, runtime::SafetensorsDtype::i32, &rng_steps[micro]);
    }
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
