// Moves biases out of matmuls' epilogues. A library's matmul with a bias epilogue is slower than the bare
// one, and the next kernel has the result in registers anyway.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "ir/merge.h"
#include "ops/shapes.h"
#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::Node;
using ir::Use;

std::string name_of(const Node& node) {
  return node.op == ir::Op::fused ? std::get<std::string>(node.attributes.at("name")) : to_string(node.op);
}

class BiasMove {
 public:
  BiasMove(ir::Graph& graph, const std::set<ir::ValueId>& kept) : graph_(graph), kept_(kept) {}

  // Moves the bias of `matmul`, a node of `region`. Returns what was decided.
  std::string run(const ir::Region& region, Node& matmul) {
    const std::string name = graph_.value(matmul.outputs[0]).name;
    const size_t values = graph_.values.size();
    changed_.clear();
    if (const std::string obstacle = plan(region, matmul); !obstacle.empty()) {
      graph_.values.resize(values);
      return fmt::format("{} keeps its bias: {}", name, obstacle);
    }
    std::vector<std::string> readers;
    for (auto& [reader, with_bias] : changed_) {
      readers.push_back(name_of(*reader));
      *reader = std::move(with_bias);
    }
    graph_.value(matmul.outputs[0].value).name += ".matmul";
    matmul.inputs[2] = {};
    if (matmul.inputs.size() == 3) matmul.inputs.pop_back();
    return fmt::format("the bias of {} is added by {}", name, fmt::join(readers, ", "));
  }

 private:
  // Fills changed_ with every reader as it becomes. Returns why that cannot be, or nothing.
  std::string plan(const ir::Region& region, const Node& matmul) {
    const Use output = matmul.outputs[0];
    const ir::Value& value = graph_.value(output);
    if (value.view || value.role != ir::Role::activation || kept_.contains(output.value))
      return "it is a result";
    for (ir::Function& function : graph_.functions) {
      for (ir::Region& other : function.regions) {
        for (Node& node : other.nodes) {
          if (&node != &matmul &&
              std::ranges::any_of(node.outputs, [&](Use use) { return lies_in(use, output); }))
            return name_of(node) + " writes there too";
          if (std::ranges::none_of(node.inputs, [&](Use use) { return lies_in(use, output); })) continue;
          std::optional<Node> changed =
              reads_same_layers(region, other, matmul) ? with_bias(matmul, node) : std::nullopt;
          if (!changed) return name_of(node) + " reads it";
          changed_.emplace_back(&node, std::move(*changed));
        }
      }
    }
    return changed_.empty() ? "nothing reads it" : "";
  }

  bool lies_in(Use use, Use output) const {
    return use.value != ir::kNoValue && storage_of(graph_, use.value) == storage_of(graph_, output.value);
  }

  // True if the layer that a reader in `other` names is the one whose bias the matmul means.
  static bool reads_same_layers(const ir::Region& region, const ir::Region& other, const Node& matmul) {
    return &region == &other || matmul.outputs[0].slot.per_layer || !matmul.inputs[2].slot.per_layer;
  }

  // The reader with the bias added to each of its loads of the matmul, in f32 and in registers only.
  std::optional<Node> with_bias(const Node& matmul, const Node& reader) {
    const Use output = matmul.outputs[0];
    std::optional<Node> result = reader;
    for (size_t i = 0; i < reader.inputs.size() && result; ++i) {
      const Use use = reader.inputs[i];
      if (use.value == ir::kNoValue || !lies_in(use, output) ||
          std::ranges::find(reader.inputs, use) - reader.inputs.begin() < static_cast<std::ptrdiff_t>(i))
        continue;
      if (reader.op != ir::Op::fused || use.value != output.value ||
          use.slot.per_layer != output.slot.per_layer)
        return std::nullopt;
      Use bias = matmul.inputs[2];
      if (bias.slot.per_layer && use.slot.per_layer) bias.slot.index += use.slot.index - output.slot.index;
      const Node sum = bias_sum(*result, use, bias);
      std::ranges::replace(result->inputs, use, sum.outputs[0]);
      result = ir::merged(sum, *result);
    }
    return result;
  }

  // x = matmul + bias, where the reader's formula calls the matmul x.
  Node bias_sum(const Node& reader, Use matmul, Use bias) {
    ir::Value value = graph_.value(matmul);
    value.dtype = ir::DType::f32;
    value.exact = true;
    Node sum = reader;
    sum.inputs = {matmul, bias};
    sum.outputs = {{graph_.add(std::move(value)), matmul.slot}};
    const auto operand = std::ranges::find_if(reader.body->operands, [&](const ir::Operand& o) {
      return o.input >= 0 && reader.inputs[o.input] == matmul;
    });
    const std::string x = operand->name;
    ir::BodyBuilder k = ops::rowwise(graph_, sum);
    k.store(0, k.named(x, k.full(0) + k.per_column(1)));
    ir::Body body = k.take();
    body.operands[0].name = "matmul";
    body.operands[1].name = "bias";
    body.operands[2].name = x;
    sum.body = std::make_shared<const ir::Body>(std::move(body));
    sum.attributes["formula"] = x + " = matmul + bias";
    return sum;
  }

  ir::Graph& graph_;
  const std::set<ir::ValueId>& kept_;
  std::vector<std::pair<Node*, Node>> changed_;
};

}  // namespace

void move_biases(ir::Graph& graph, const std::set<ir::ValueId>& kept, Log& log) {
  BiasMove move(graph, kept);
  for (ir::Function& function : graph.functions) {
    for (ir::Region& region : function.regions) {
      for (Node& node : region.nodes) {
        if (node.op != ir::Op::gemm || node.inputs.size() < 3 || node.inputs[2].value == ir::kNoValue)
          continue;
        log.push_back(
            {"biases", fmt::format("{}.{}: {}", function.name, region.name, move.run(region, node))});
      }
    }
  }
}

}  // namespace hydrac::passes
