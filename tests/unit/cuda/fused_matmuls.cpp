#include "fused_matmuls.h"

#include <random>
#include <set>
#include <stdexcept>

#include "codegen/cuda/body.h"
#include "emulated_body.h"

namespace hydrac::test {

ir::Use add_value(ir::Graph& graph, const std::string& name, const ir::Shape& shape, ir::DType dtype,
                  ir::Role role) {
  ir::Value value;
  value.name = name;
  value.dtype = dtype;
  value.shape = shape;
  value.role = role;
  return {graph.add(std::move(value)), {}};
}

std::vector<FusedNode> fused_matmuls(const ir::Graph& graph) {
  std::vector<FusedNode> found;
  std::set<std::string> seen;
  for (const ir::Function& function : graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op != ir::Op::fused_matmul) continue;
        if (seen.insert(
                    to_text(codegen::cuda_body_kernels(graph, node, *targets::find("sm_90")).kernels[0].text))
                .second)
          found.push_back({&node, region.layers > 1 ? 1 : 0});
      }
    }
  }
  return found;
}

std::string name_of(const ir::Node& node) {
  return std::get<std::string>(node.attributes.at("name"));
}

Names nodes_of(const ir::Graph& graph, const std::string& function, const std::string& region) {
  Names names;
  for (const ir::Region& candidate : graph.function(function).regions) {
    if (candidate.name != region) continue;
    for (const ir::Node& node : candidate.nodes)
      names.push_back(node.body ? name_of(node) : to_string(node.op));
  }
  return names;
}

const ir::Node& node_named(const ir::Graph& graph, const std::string& function, const std::string& name) {
  for (const ir::Region& region : graph.function(function).regions) {
    for (const ir::Node& node : region.nodes) {
      if (node.body && name_of(node) == name) return node;
    }
  }
  throw std::logic_error("no node " + name);
}

namespace {

void fill_by_name(const ir::Graph& graph, Interpreter& state) {
  for (const ir::Value& value : graph.values) {
    if (value.view || (value.role != ir::Role::parameter && value.role != ir::Role::frozen &&
                       value.role != ir::Role::working_copy && value.role != ir::Role::gradient))
      continue;
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(value.name)));
    std::normal_distribution<double> normal(0, 0.3);
    for (int slot = 0; slot < value.slots; ++slot) {
      std::vector<double> numbers(element_count(value.shape));
      for (double& x : numbers) x = rounded(value.dtype, normal(random));
      state.write({value.id, {false, slot}}, numbers);
    }
  }
}

}  // namespace

std::map<std::string, std::vector<double>> gradients_of(const GpuModel& model) {
  Interpreter state(model.graph);
  randomize(model, state);
  fill_by_name(model.graph, state);
  state.run("micro_step");
  std::map<std::string, std::vector<double>> found;
  for (const ir::Value& value : model.graph.values) {
    for (int slot = 0; slot < value.slots && value.role == ir::Role::gradient && !value.view; ++slot)
      found[value.name + std::to_string(slot)] = state.read({value.id, {false, slot}});
  }
  return found;
}

namespace {

// The definition, with the matmul rounded as memory would round it.
void define(const ir::Graph& graph, Interpreter& state, const ir::Node& node, int layer) {
  state.run(matmul_of(node), layer);
  std::vector<double> matmul = state.read(node.matmul, layer);
  for (double& x : matmul) x = rounded(graph.value(node.matmul).dtype, x);
  state.write(node.matmul, matmul, layer);
  state.run(epilogue_of(node), layer);
}

}  // namespace

std::vector<std::string> differences(const ir::Graph& graph, Interpreter& state, const ir::Node& node,
                                     int layer) {
  const codegen::CudaKernels kernels = codegen::cuda_body_kernels(graph, node, *targets::find("sm_90"));
  std::vector<std::string> names;
  for (size_t k = 0; k < kernels.kernels.size(); ++k) names.push_back(kernel_name("matmul", k));
  emulation::EmulatedKernels compiled(cuda_source_of(graph, {{"matmul", kernels}}, *targets::find("sm_90")),
                                      names);
  BodyMemory memory(graph, state, kernels, layer);
  memory.run(compiled, "matmul");
  define(graph, state, node, layer);
  return memory.compare(state, 8e-3, 4e-3);
}

}  // namespace hydrac::test
