// Our own bugs in a Program.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "program/program.h"
#include "runtime/batch_stride.h"

namespace hydrac::program {

namespace {

// True if the matrices of a batched matmul are where its call looks for them.
bool lie_side_by_side(const ir::Graph& graph, const std::vector<ir::Use>& matrices) {
  return std::ranges::all_of(matrices, [&](ir::Use use) {
    const ir::Shape& shape = graph.value(use).shape;
    const std::vector<int64_t> strides = resolved_view(graph, use.value).strides;
    return shape.size() == 3 &&
           strides ==
               std::vector<int64_t>{runtime::batch_stride(shape[1].size, shape[2].size), shape[2].size, 1};
  });
}

std::vector<std::string> problems_of(const ir::Graph& graph, const Program& program, const Call& call,
                                     const Launch& launch) {
  if (launch.kernel < 0 || launch.kernel >= static_cast<int>(program.kernels.size()))
    return {"no such kernel"};
  std::vector<std::string> problems;
  const std::vector<MatrixMap>& maps = program.kernels[static_cast<size_t>(launch.kernel)].maps;
  for (size_t i = 0; i < maps.size(); ++i) {
    const ir::Value& value = graph.value(call.arguments.at(i));
    if (element_count(value.shape) != maps[i].rows * maps[i].columns || value.dtype != maps[i].dtype)
      problems.push_back(fmt::format("{} is not {}x{}", value.name, maps[i].rows, maps[i].columns));
  }
  return problems;
}

std::vector<std::string> problems_of(const ir::Graph& graph, const Call& call, const Gemm& gemm) {
  const auto elements = [&](ir::Use use) { return element_count(graph.value(use).shape); };
  const auto matrices = gemm.operands(call.arguments);
  const GemmShape& g = gemm.shape;
  const int64_t groups = std::max<int64_t>(g.groups, 1);
  const bool fit = elements(matrices.a) == g.batch * g.m * g.k &&
                   elements(matrices.b) == g.batch * g.k * g.n * (g.transpose_a ? 1 : groups) &&
                   elements(matrices.c) == g.batch * g.m * g.n * (g.transpose_a ? groups : 1) &&
                   (g.groups == 0 || elements(matrices.offsets) == g.groups + 1) &&
                   (g.batch == 1 || lie_side_by_side(graph, {matrices.a, matrices.b, matrices.c}));
  if (fit) return {};
  return {fmt::format("operands do not fit {}x{}x{}", g.m, g.n, g.k)};
}

// Tensors that ranks move keep their type.
std::vector<std::string> problems_of(const ir::Graph& graph, const Call& call, const Collective& collective) {
  std::vector<std::string> problems;
  for (const auto& [from, to] : collective.tensors(call.arguments))
    if (graph.value(from).dtype != graph.value(to).dtype)
      problems.push_back(fmt::format("{} is {}, and becomes {}, which is {}", graph.value(from).name,
                                     to_string(graph.value(from).dtype), graph.value(to).name,
                                     to_string(graph.value(to).dtype)));
  return problems;
}

std::vector<std::string> problems_of(const ir::Graph& graph, const Program& program, const Call& call) {
  if (std::ranges::any_of(call.arguments, [](ir::Use use) { return use.value == ir::kNoValue; }))
    return {"an argument without a value"};
  if (const auto* launch = std::get_if<Launch>(&call.work)) return problems_of(graph, program, call, *launch);
  if (const auto* gemm = std::get_if<Gemm>(&call.work)) return problems_of(graph, call, *gemm);
  if (const auto* collective = std::get_if<Collective>(&call.work))
    return problems_of(graph, call, *collective);
  return {};
}

}  // namespace

std::vector<std::string> verify(const ir::Graph& graph, const Program& program) {
  std::vector<std::string> problems;
  for (const Function& function : program.functions) {
    for (const Section& section : function.sections) {
      for (const Call& call : section.calls) {
        for (const std::string& problem : problems_of(graph, program, call))
          problems.push_back(fmt::format("{}.{}: {}: {}", function.name, section.name, call.label, problem));
      }
    }
  }
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const std::vector<Grid> grids = grids_of(program, static_cast<int>(k));
    const bool differ =
        std::ranges::any_of(grids, [&](const Grid& g) { return g.blocks != grids[0].blocks; });
    if (differ && program.kernels[k].blocks_of_rows.empty())
      problems.push_back(program.kernels[k].name +
                         ": launched with different grids, but its text says the rows");
  }
  return problems;
}

}  // namespace hydrac::program
