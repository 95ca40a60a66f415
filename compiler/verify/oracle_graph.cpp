#include "verify/oracle_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "models/parameters.h"

namespace hydrac::verify {

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

ir::Shape unpadded_shape(const ir::Value& value) {
  ir::Shape shape = value.shape;
  if (value.parameter) shape[0].size = models::checkpoint_rows(value);
  return shape;
}

namespace {

Json use_json(ir::Use use) {
  if (use.value == ir::kNoValue) return nullptr;
  return {{"value", use.value}, {"slot", use.slot.per_layer ? "layer" : "fixed"}, {"offset", use.slot.index}};
}

struct AttributeJson {
  Json operator()(const std::shared_ptr<const functions::Function>& function) const {
    return function_json(*function);
  }
  // The oracle's attributes are numbers: {"0": .., "1": ..}.
  Json operator()(const std::vector<double>& numbers) const {
    Json json = Json::object();
    for (size_t i = 0; i < numbers.size(); ++i) json[std::to_string(i)] = numbers[i];
    return json;
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

// The input that has the choices: no value of the graph.
ir::ValueId replayed_choice(const ir::Graph& graph) {
  return static_cast<ir::ValueId>(graph.values.size());
}

// In the oracle a causal convolution is one operation: the matmul of all taps, `matmul`, and the sums over
// each part of its result.
void append_convolutions(const ir::Graph& graph, const ir::Node& matmul, const ir::Node& sums, Json& nodes) {
  std::vector<ir::Use> inputs = {matmul.inputs[0], matmul.inputs[1]};
  inputs.insert(inputs.end(), sums.inputs.begin() + 1, sums.inputs.end());  // documents
  int64_t first = 0;
  for (ir::Use part : sums.outputs) {
    nodes.push_back(
        node_json("causal_conv", {{"taps", sums.integer("taps")}, {"first", first}}, inputs, part));
    const ir::Shape& shape = graph.value(part).shape;
    first += ir::element_count({shape.begin() + 2, shape.end()});
  }
}

// Translates our forward ops into the oracle's. Left out are statistics that ops keep for their gradients,
// the random seed (part of the job), and attributes that only choose an implementation.
void append_node(const ir::Graph& graph, const ir::Node& node, Json& nodes) {
  std::string op = to_string(node.op);
  const std::set<std::string> logged = {"statistic", "choice_hits", "largest_load", "router_entropy"};
  if (logged.contains(op)) return;
  Json attributes = attributes_json(node);
  attributes.erase("input_name");
  std::vector<ir::Use> inputs = node.inputs;
  if (op == "split_qkv") {
    int64_t offset = 0;
    for (ir::Use part : node.outputs) {
      const ir::Shape& shape = graph.value(part).shape;
      const bool is_flat = shape.size() == 3;  // heads that are normed together
      Json split = {{"offset", offset}, {"head_dim", shape.back().size}};
      if (!is_flat) split["heads"] = shape[2].size;
      const bool by_head = node.optional_flag("by_head");
      if (by_head) split["by_head"] = true;
      nodes.push_back(node_json("split_heads", std::move(split), inputs, part));
      offset += by_head ? shape[3].size : ir::element_count({shape.begin() + 2, shape.end()});
    }
    return;
  }
  if (op == "recursion_depth") {
    inputs.push_back({replayed_choice(graph), {}});
    nodes.push_back(node_json(op, attributes, inputs, node.outputs[0]));
    nodes.push_back(node_json("recursion_weight", std::move(attributes), inputs, node.outputs[1]));
    return;
  }
  if (op == "pair_sums") {
    for (const bool rejected : {false, true}) {
      const Json of = {{"rejected", rejected}};
      nodes.push_back(node_json("pair_sum", of, inputs, node.outputs[rejected]));
      nodes.push_back(node_json("pair_tokens", of, inputs, node.outputs[2 + rejected]));
    }
    return;
  }
  if (op == "preference_loss") {
    op = attributes["rule"].get<std::string>();
    attributes.erase("rule");
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
  if (op == "take_tokens" || op == "spread_tokens" || op == "expert_weights") inputs.resize(2);
  if (op == "rope") {
    attributes.erase("inverse");
    if (attributes.contains("factor") || attributes.contains("pair_factors")) {
      Json scaling;
      for (const char* key :
           {"factor", "pair_factors", "is_linear", "low_freq_factor", "high_freq_factor", "beta_fast",
            "beta_slow", "truncate", "attention_factor", "original_max_position_embeddings"}) {
        if (!attributes.contains(key)) continue;
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
  if (op == "auxiliary_loss") {
    attributes.erase("accumulate");
    inputs.resize(2);
  }
  if (op == "dropout" || op == "attention")
    inputs.erase(inputs.begin() + (op == "dropout" ? 2 : 4));  // rng_seed
  nodes.push_back(node_json(op, std::move(attributes), inputs, node.outputs[0]));
}

// The "sum_taps" that reads what the node makes, if one does.
const ir::Node* tap_sums_of(const ir::Region& region, const ir::Node& node) {
  const auto found = std::ranges::find_if(region.nodes, [&](const ir::Node& reader) {
    return reader.op == ir::Op::sum_taps && reader.inputs[0] == node.outputs[0];
  });
  return found == region.nodes.end() ? nullptr : &*found;
}

// The matmul whose results a "sum_taps" reads.
const ir::Node& matmul_of(const ir::Region& region, const ir::Node& sums) {
  return *std::ranges::find_if(region.nodes,
                               [&](const ir::Node& node) { return tap_sums_of(region, node) == &sums; });
}

const ir::Node& producer_of(const ir::Region& region, ir::Use use) {
  return *std::ranges::find_if(
      region.nodes, [&](const ir::Node& node) { return std::ranges::count(node.outputs, use) > 0; });
}

// For the oracle a choice is one operation, of the scores and of what the program chose.
void append_choice(const std::string& op, const ir::Graph& graph, const ir::Region& region,
                   const ir::Node& chosen, Json& nodes) {
  nodes.push_back(node_json(op, attributes_json(chosen),
                            {producer_of(region, chosen.inputs[0]).inputs[0], {replayed_choice(graph), {}}},
                            chosen.outputs[0]));
}

// Nodes that the oracle does without: a choice's ranks, and the order and the number of experts' rows.
bool is_part_of_choice(const ir::Node& node) {
  return node.op == ir::Op::score_ranks || node.op == ir::Op::expert_ranks ||
         node.op == ir::Op::expert_rows || node.op == ir::Op::expert_load;
}

// The experts that tokens have chosen, by which the third input says where rows are, or how many.
ir::Use experts_of(const ir::Region& region, const ir::Node& node) {
  const ir::Node& by = producer_of(region, node.inputs[2]);
  if (by.op == ir::Op::expert_rows) return by.inputs[0];
  return std::ranges::find_if(region.nodes,
                              [&](const ir::Node& choice) {
                                return choice.op == ir::Op::chosen_experts && choice.inputs == by.inputs;
                              })
      ->outputs[0];
}

// Nodes of experts' rows, which the oracle has in the order of the choices, and of a router's loss.
bool reads_choices(const ir::Node& node) {
  return node.op == ir::Op::expert_inputs || node.op == ir::Op::grouped_matmul ||
         node.op == ir::Op::combined_rows || node.op == ir::Op::router_loss;
}

void append_reader_of_choices(const ir::Region& region, const ir::Node& node, Json& nodes) {
  std::vector<ir::Use> inputs = {node.inputs[0]};
  if (node.op == ir::Op::grouped_matmul || node.op == ir::Op::router_loss) inputs.push_back(node.inputs[1]);
  if (node.op == ir::Op::combined_rows) inputs.push_back(node.inputs[3]);
  inputs.push_back(experts_of(region, node));
  Json attributes = attributes_json(node);
  attributes.erase("transpose_b");
  nodes.push_back(node_json(to_string(node.op), std::move(attributes), inputs, node.outputs[0]));
}

bool activates(const ir::Node& node) {
  return node.op == ir::Op::activation || node.op == ir::Op::gated;
}

// Values with other shapes in the oracle. Attention's output has a dimension for heads, also after dropout;
// the linear layer that reads it flattens it. There is one row of experts for each choice of a token.
std::map<ir::ValueId, ir::Shape> shapes_there(const ir::Graph& graph) {
  std::map<ir::ValueId, ir::Shape> shapes;
  for (const ir::Region& region : graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      if (node.op == ir::Op::attention) shapes[node.outputs[0].value] = graph.value(node.inputs[0]).shape;
      const auto found = shapes.find(node.inputs.empty() ? ir::kNoValue : node.inputs[0].value);
      if (node.op == ir::Op::dropout && found != shapes.end()) shapes[node.outputs[0].value] = found->second;
      const bool is_of_rows = node.op == ir::Op::expert_inputs || node.op == ir::Op::grouped_matmul;
      if (!is_of_rows && !(activates(node) && found != shapes.end())) continue;
      ir::Shape& shape = shapes[node.outputs[0].value] = graph.value(node.outputs[0]).shape;
      shape[0] = is_of_rows ? ir::Dim{element_count(graph.value(experts_of(region, node)).shape), ""}
                            : found->second[0];
    }
  }
  return shapes;
}

// The residual stream, between the passes of a mixture of recursions too.
bool is_stream(const ir::Value& value) {
  return value.name == "residual" || value.name.starts_with("residual.") ||
         value.name.starts_with("residual_pass") || (value.name.starts_with("recursion") && !value.parameter);
}

// Values that the forward pass reads and writes, except the random seed (part of the job) and the loss scale
// (it only scales gradients).
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

}  // namespace

ir::ValueId kept_choice(const ir::Graph& graph) {
  for (const char* name : {"router.places", "router.depths"})
    if (const ir::ValueId kept = graph.find(name); kept != ir::kNoValue) return kept;
  return graph.find("router.experts");
}

ir::Shape choices_shape(const ir::Value& kept) {
  ir::Shape shape = kept.shape;
  shape.insert(shape.begin(), {kept.slots, ""});
  return shape;
}

Json graph_json(const ir::Graph& graph) {
  const std::set<ir::ValueId> used = used_values(graph);
  const std::map<ir::ValueId, ir::Shape> shapes = shapes_there(graph);
  Json values = Json::array();
  for (const ir::Value& value : graph.values) {
    const auto found = shapes.find(value.id);
    Json shape = Json::array();
    for (const ir::Dim& dim : found == shapes.end() ? unpadded_shape(value) : found->second)
      shape.push_back(dim.size);
    std::string role(to_string(value.role));
    if (!used.contains(value.id)) continue;
    if (value.role == ir::Role::state)
      role = value.name == "rng_step" || value.name == "step" ? "input" : "activation";
    // Only parameters and inputs are known by name there, and those names are unique here.
    const std::string name = role == "activation" ? fmt::format("{}#{}", value.name, value.id) : value.name;
    values.push_back({{"id", value.id},
                      {"name", name},
                      {"dtype", to_string(value.dtype)},
                      {"shape", shape},
                      {"slots", value.slots},
                      {"role", role}});
    if (is_stream(value) && !value.exact) values.back()["narrow"] = 1;
  }
  if (const ir::ValueId kept = kept_choice(graph); kept != ir::kNoValue) {
    Json shape = Json::array();
    for (const ir::Dim& dim : choices_shape(graph.value(kept))) shape.push_back(dim.size);
    values.push_back({{"id", replayed_choice(graph)},
                      {"name", kReplayedChoice},
                      {"dtype", to_string(ir::DType::i32)},
                      {"shape", shape},
                      {"slots", 1},
                      {"role", "input"}});
  }
  Json regions = Json::array();
  for (const ir::Region& region : graph.function("micro_step").regions) {
    Json nodes = Json::array();
    for (const ir::Node& node : region.nodes) {
      if (tap_sums_of(region, node) || is_part_of_choice(node)) continue;
      if (node.op == ir::Op::sum_taps)
        append_convolutions(graph, matmul_of(region, node), node, nodes);
      else if (node.op == ir::Op::chosen_places)
        append_choice("choose_tokens", graph, region, node, nodes);
      else if (node.op == ir::Op::chosen_experts)
        append_choice("choose_experts", graph, region, node, nodes);
      else if (reads_choices(node))
        append_reader_of_choices(region, node, nodes);
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

}  // namespace hydrac::verify
