#include "oracle/job/graph_reader.h"

#include <fmt/format.h>

#include <utility>

#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxDim = std::int64_t{1} << 40;
constexpr int kMaxSlots = 1 << 20;

template <class E>
E choose(JsonReader& in, const std::string& key, std::initializer_list<std::pair<const char*, E>> names) {
  const std::string text = in.text(key);
  std::string known;
  for (const auto& [name, value] : names) {
    if (text == name) return value;
    known += known.empty() ? name : fmt::format(", {}", name);
  }
  throw JobError(fmt::format("{} is \"{}\"; it must be one of {}", in.place(key), text, known));
}

Value read_value(JsonReader& in) {
  Value value;
  value.name = in.text("name");
  value.dtype = choose<Dtype>(in, "dtype", {{"f32", Dtype::f32}, {"i32", Dtype::i32}, {"u32", Dtype::u32}});
  for (const json& dim : in.array("shape")) {
    if (!dim.is_number_integer() || dim.get<std::int64_t>() < 1 || dim.get<std::int64_t>() > kMaxDim)
      throw JobError(fmt::format("{} must hold positive integers", in.place("shape")));
    value.shape.push_back(dim.get<std::int64_t>());
  }
  value.slots = static_cast<int>(in.integer("slots", 1, kMaxSlots, 1));
  value.role = choose<Role>(in, "role",
                            {{"parameter", Role::parameter},
                             {"frozen", Role::frozen},
                             {"input", Role::input},
                             {"constant", Role::constant},
                             {"activation", Role::activation}});
  if (in.has("nf4")) {
    std::int64_t rows = 0;
    for (const json& part : in.array("nf4")) {
      if (!part.is_number_integer() || part.get<std::int64_t>() < 1 || part.get<std::int64_t>() > kMaxDim)
        throw JobError(fmt::format("{} must hold positive integers", in.place("nf4")));
      value.nf4.push_back(part.get<std::int64_t>());
      rows += value.nf4.back();
    }
    if (value.role != Role::frozen || value.shape.size() != 2 || value.shape[0] != rows ||
        value.shape[1] % 64 != 0)
      throw JobError(fmt::format("{} must be the rows of a frozen matrix of whole blocks", in.place("nf4")));
  }
  value.narrow = in.integer("narrow", 0, 1, 0) == 1;
  if (value.role == Role::input && value.slots != 1)
    throw JobError(fmt::format("{} must be 1 for an input", in.place("slots")));
  return value;
}

using IdMap = std::map<std::int64_t, int>;

int index_of(JsonReader& in, const IdMap& ids, const std::string& key = "value") {
  const std::int64_t id = in.integer(key, INT64_MIN, INT64_MAX);
  const auto found = ids.find(id);
  if (found == ids.end()) throw JobError(fmt::format("{}: there is no value {}", in.place(key), id));
  return found->second;
}

SlotRef read_slot(const json& object, const std::string& where, const IdMap& ids) {
  JsonReader in(object, where);
  SlotRef ref;
  ref.value = index_of(in, ids);
  ref.per_layer = choose<bool>(in, "slot", {{"layer", true}, {"fixed", false}});
  ref.offset = static_cast<int>(in.integer("offset", -kMaxSlots, kMaxSlots, 0));
  in.expect_no_more();
  return ref;
}

void read_attrs(const json& object, const std::string& prefix, const std::string& where, Node& node) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    if (value.is_object()) {
      read_attrs(value, prefix + key + ".", where, node);
    } else if (value.is_number() || value.is_boolean()) {
      node.attrs[prefix + key] = value.is_boolean() ? (value.get<bool>() ? 1.0 : 0.0) : value.get<double>();
    } else {
      throw JobError(
          fmt::format("{}: attribute \"{}{}\" of {} must be a number, a boolean or an object of them", where,
                      prefix, key, node.op));
    }
  }
}

Node read_node(const json& object, const std::string& where, const IdMap& ids) {
  JsonReader in(object, where);
  Node node;
  node.op = in.text("op");
  if (in.has("attrs")) {
    in.object("attrs");  // says so when it is no object
    read_attrs(in.member("attrs"), "", where, node);
  }
  for (const json& input : in.array("inputs")) {
    const std::string place = fmt::format("{}.inputs[{}]", where, node.inputs.size());
    node.inputs.push_back(input.is_null() ? std::nullopt : std::optional(read_slot(input, place, ids)));
  }
  const json& outputs = in.array("outputs");
  if (outputs.size() != 1) throw JobError(fmt::format("{} must name exactly one value", in.place("outputs")));
  node.output = read_slot(outputs[0], where + ".outputs[0]", ids);
  if (in.has("function")) node.function = read_expression(in.object("function"));
  in.expect_no_more();
  return node;
}

// Walks the graph in the order in which it runs.
class FlowCheck {
 public:
  explicit FlowCheck(const Graph& graph) : graph_(graph) {
    for (const Value& value : graph.values)
      written_.emplace_back(value.slots, value.role != Role::activation);
  }

  void run() {
    for (const Region& region : graph_.regions)
      for (int layer = 0; layer < region.iterations(); ++layer)
        for (const Node& node : region.nodes) visit(region, node, layer);
    const Value& loss = graph_.values[graph_.loss];
    if (!written_[graph_.loss][0] || loss.role != Role::activation)
      throw JobError(fmt::format("loss: no node writes value \"{}\"", loss.name));
  }

 private:
  void visit(const Region& region, const Node& node, int layer) {
    const std::string where = fmt::format("{} in region \"{}\", layer {}", node.op, region.name, layer);
    for (const auto& input : node.inputs)
      if (input && !at(*input, layer, where))
        throw JobError(fmt::format("{} reads \"{}\" slot {} before anything writes it", where,
                                   graph_.values[input->value].name, input->slot(layer)));
    auto output = at(node.output, layer, where);
    if (output)
      throw JobError(fmt::format("{} writes \"{}\" slot {}, which already has a value", where,
                                 graph_.values[node.output.value].name, node.output.slot(layer)));
    output = true;
  }

  std::vector<bool>::reference at(const SlotRef& ref, int layer, const std::string& where) {
    std::vector<bool>& slots = written_[ref.value];
    const int slot = ref.slot(layer);
    if (slot < 0 || slot >= static_cast<int>(slots.size()))
      throw JobError(fmt::format("{} touches slot {} of \"{}\", which has {}", where, slot,
                                 graph_.values[ref.value].name, slots.size()));
    return slots[slot];
  }

  const Graph& graph_;
  std::vector<std::vector<bool>> written_;
};

Region read_region(const json& object, const std::string& where, const IdMap& ids) {
  JsonReader in(object, where);
  Region region;
  region.name = in.text("name");
  region.layers = static_cast<int>(in.integer("layers", 0, kMaxSlots));
  region.first_layer = static_cast<int>(in.integer("first_layer", 0, kMaxSlots, 0));
  for (const json& node : in.array("nodes"))
    region.nodes.push_back(read_node(node, fmt::format("{}.nodes[{}]", where, region.nodes.size()), ids));
  in.expect_no_more();
  return region;
}

}  // namespace

Graph read_graph(JsonReader& job) {
  JsonReader in = job.object("graph");
  Graph graph;
  IdMap ids;
  std::set<std::string> names;
  for (const json& object : in.array("values")) {
    JsonReader reader(object, fmt::format("graph.values[{}]", graph.values.size()));
    const std::int64_t id = reader.integer("id", INT64_MIN, INT64_MAX);
    if (!ids.emplace(id, graph.values.size()).second)
      throw JobError(fmt::format("{} {} is taken by an earlier value", reader.place("id"), id));
    graph.values.push_back(read_value(reader));
    if (!names.insert(graph.values.back().name).second)
      throw JobError(fmt::format("{} \"{}\" is taken by an earlier value", reader.place("name"),
                                 graph.values.back().name));
    reader.expect_no_more();
  }
  for (const json& object : in.array("regions"))
    graph.regions.push_back(read_region(object, fmt::format("graph.regions[{}]", graph.regions.size()), ids));
  in.expect_no_more();

  JsonReader loss = job.object("loss");
  graph.loss = index_of(loss, ids);
  if (loss.has("auxiliary")) graph.auxiliary = index_of(loss, ids, "auxiliary");
  loss.expect_no_more();
  FlowCheck(graph).run();
  return graph;
}

}  // namespace hydrac::oracle
