#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include <stdexcept>
#include "runtime/batch_stride.h"

#include "program/program.h"

namespace hydrac::program {

std::string name_of(const Program& program, const Call& call) {
  switch (call.kind) {
    case Call::Kind::launch:
      return program.kernels[call.kernel].name;
    case Call::Kind::gemm:
      return fmt::format(
          "gemm {}{} {}x{}x{}{}{}{}{}", call.gemm.transpose_a ? 'T' : 'N', call.gemm.transpose_b ? 'T' : 'N',
          call.gemm.m, call.gemm.n, call.gemm.k,
          call.gemm.batch > 1 ? fmt::format(", {} of them", call.gemm.batch) : "",
          call.gemm.is_f8() ? fmt::format(" {}*{}", to_string(call.gemm.a), to_string(call.gemm.b)) : "",
          call.gemm.bias ? " + bias" : "",
          !call.gemm.accumulate        ? ""
          : call.gemm.first_overwrites ? " +=, first ="
                                       : " +=");
    case Call::Kind::attention:
      return call.attention.backward ? "cudnn attention backward" : "cudnn attention";
    case Call::Kind::zero:
      return "zero";
    case Call::Kind::all_reduce:
      return "all_reduce";
    case Call::Kind::copy:
      return "copy";
    case Call::Kind::reduce_scatter:
      return "reduce_scatter";
    case Call::Kind::all_gather:
      return "all_gather";
    case Call::Kind::own_part:
      return "own_part";
    case Call::Kind::sum_over_ranks:
      return "sum_over_ranks";
  }
  throw std::logic_error("no such kind of call");
}

std::vector<Shared> shared_tensors(const Call& call) {
  const size_t count = call.arguments.size() / 2;
  std::vector<Shared> tensors;
  for (size_t i = 0; i < count; ++i) {
    tensors.push_back({call.arguments[i], call.arguments[count + i]});
    if (call.kind == Call::Kind::all_gather) std::swap(tensors.back().whole, tensors.back().part);
  }
  return tensors;
}

bool may_contract(const Kernel& kernel) {
  return !kernel.header.empty() && kernel.maps.empty();
}

std::vector<Grid> grids_of(const Program& program, int kernel) {
  std::vector<Grid> grids;
  for (const Function& function : program.functions) {
    for (const Section& section : function.sections) {
      for (const Call& call : section.calls) {
        if (call.kind == Call::Kind::launch && call.kernel == kernel &&
            std::ranges::count(grids, call.grid) == 0)
          grids.push_back(call.grid);
      }
    }
  }
  return grids;
}

namespace {

std::string call_text(const ir::Graph& graph, const Program& program, const Call& call) {
  std::string text = name_of(program, call) + "(";
  for (size_t i = 0; i < call.arguments.size(); ++i)
    text += (i ? ", " : "") + to_text(graph, call.arguments[i]);
  return text + ")";
}

}  // namespace

std::string to_text(const ir::Graph& graph, const Program& program) {
  std::string text;
  for (const Function& function : program.functions) {
    text += fmt::format("function {}\n", function.name);
    for (const Section& section : function.sections) {
      text += fmt::format("  {}{}\n", section.name,
                          section.layers > 0
                              ? fmt::format(" x {}{}", section.layers, section.reverse ? ", downwards" : "")
                              : "");
      for (const Call& call : section.calls) text += "    " + call_text(graph, program, call) + "\n";
    }
  }
  text += "\nkernels\n";
  for (const Kernel& kernel : program.kernels) text += definition_text(kernel);
  return text;
}

std::string definition_text(const Kernel& kernel) {
  std::string comment = "// " + kernel.comment;
  for (size_t at = 0; (at = comment.find('\n', at)) != std::string::npos; at += 4)
    comment.replace(at, 1, "\n// ");
  return fmt::format("\n{}\n{}", comment, kernel.text);
}

namespace {

// Whether the matrices of a batched matmul are where its call looks for them.
bool lie_side_by_side(const ir::Graph& graph, const Call& gemm) {
  if (gemm.gemm.batch == 1) return true;
  return std::ranges::all_of(
      std::vector<ir::Use>(gemm.arguments.begin(), gemm.arguments.begin() + 3), [&](ir::Use use) {
        const ir::Shape& shape = graph.value(use).shape;
        const std::vector<int64_t> strides = resolved_view(graph, use.value).strides;
        return shape.size() == 3 &&
               strides == std::vector<int64_t>{runtime::batch_stride(shape[1].size, shape[2].size),
                                               shape[2].size, 1};
      });
}

}  // namespace

std::vector<std::string> verify(const ir::Graph& graph, const Program& program) {
  std::vector<std::string> problems;
  for (const Function& function : program.functions) {
    for (const Section& section : function.sections) {
      for (const Call& call : section.calls) {
        const std::string where =
            fmt::format("{}.{}: {}", function.name, section.name, call_text(graph, program, call));
        for (ir::Use use : call.arguments) {
          if (use.value == ir::kNoValue) problems.push_back(where + ": an argument without a value");
        }
        if (call.kind == Call::Kind::launch) {
          if (call.kernel < 0 || call.kernel >= static_cast<int>(program.kernels.size())) {
            problems.push_back(where + ": no such kernel");
            continue;
          }
          const std::vector<MatrixMap>& maps = program.kernels[call.kernel].maps;
          for (size_t i = 0; i < maps.size(); ++i) {
            const ir::Value& value = graph.value(call.arguments.at(i));
            if (element_count(value.shape) != maps[i].rows * maps[i].columns || value.dtype != maps[i].dtype)
              problems.push_back(
                  fmt::format("{}: {} is not {}x{}", where, value.name, maps[i].rows, maps[i].columns));
          }
        }
        if (call.kind != Call::Kind::gemm) continue;
        const auto elements = [&](int i) { return element_count(graph.value(call.arguments[i]).shape); };
        const GemmShape& g = call.gemm;
        if (elements(0) != g.batch * g.m * g.k || elements(1) != g.batch * g.k * g.n ||
            elements(2) != g.batch * g.m * g.n || !lie_side_by_side(graph, call)) {
          problems.push_back(fmt::format("{}: operands do not fit {}x{}x{}", where, g.m, g.n, g.k));
        }
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
