#include "codegen/cpu/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "codegen/build_calls.h"
#include "codegen/cpu/body.h"
#include "codegen/cpu/library.h"
#include "codegen/dimensions.h"
#include "codegen/expression_text.h"
#include "codegen/kernel_table.h"
#include "codegen/spec_numbers.h"
#include "program/cost.h"

namespace hydrac::codegen {

namespace {

using program::Call;
using program::Function;
using program::Program;
using program::Section;

class CpuProgramBuilder {
 public:
  CpuProgramBuilder(ir::Graph& graph, int threads) : graph_(graph), threads_(threads) {}

  Program run() {
    for (ir::Function& function : graph_.functions) {
      Function out{function.name, {}};
      function_ = function.name;
      for (ir::Region& region : function.regions) {
        Section section{region.name, region.layers, region.reverse, {}, region.first_layer};
        for (ir::Node& node : region.nodes) section.calls.push_back(call_for(region, node));
        out.sections.push_back(std::move(section));
      }
      program_.functions.push_back(std::move(out));
    }
    program_.dimensions = Dimensions(graph_).all();
    program_.numbers = SpecNumbers(graph_).all();
    return std::move(program_);
  }

 private:
  Call call_for(const ir::Region& region, ir::Node& node) {
    const ops::Cost cost = program::cost_of(graph_, node);
    const ir::Node without_scratch = node;
    const std::optional<Call> of_ranks = call_of_ranks(node);
    Call call = of_ranks                                      ? *of_ranks
                : node.op == ir::Op::gemm || is_grouped(node) ? gemm(node)
                                                              : launch(region, node);
    call.flop = cost.flop;
    call.bytes = cost.bytes;
    call.label = graph_.value(node.outputs[0]).name;
    note_tensors(without_scratch, call);
    return call;
  }

  static program::Grid grid_of(const CpuKernel& source) {
    if (!source.rows) return {};
    return {.blocks = source.rows->value, .text = "", .rows = source.rows->code.text};
  }

  Call gemm(const ir::Node& node) const {
    Call call{.work = gemm_of(graph_, node), .arguments = {node.inputs[0], node.inputs[1], node.outputs[0]}};
    if (is_grouped(node)) call.arguments.push_back(node.inputs[2]);
    return call;
  }

  Call launch(const ir::Region& region, ir::Node& node) {
    const CpuKernel source =
        node.op == ir::Op::fused ? cpu_kernel(graph_, node) : cpu_library_kernel(graph_, node, threads_);
    Call call{.arguments = source.arguments};
    if (source.workspace_bytes > 0)
      call.arguments.push_back(add_workspace(graph_, region, node, source.name, source.workspace_bytes));
    const program::Kernel kernel_of_rows{.origin = node.origin,
                                         .takes_rows = source.rows.has_value(),
                                         .blocks_of_rows = source.rows ? "rows" : ""};
    const int kernel = kernels_.add(kernel_of_rows, source, 1,
                                    {function_, region.name, node.scope, graph_.value(node.outputs[0]).name,
                                     sources_of(graph_, node), source.parameters});
    call.work = program::Launch{.kernel = kernel, .grid = grid_of(source)};
    return call;
  }

  ir::Graph& graph_;
  int threads_;
  Program program_;
  KernelTable kernels_{program_.kernels};
  std::string function_;  // whose calls are being listed
};

}  // namespace

Program build_cpu_program(ir::Graph& graph, int threads) {
  return CpuProgramBuilder(graph, threads).run();
}

namespace {

// Casts the launcher's untyped arguments to what the kernel's parameters are, in the order of the call.
std::string launcher(const ir::Graph& graph, const program::Kernel& kernel, const Call& call) {
  std::vector<std::string> arguments;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const auto type = c_type(graph.value(call.arguments[i]).dtype);
    arguments.push_back(fmt::format("static_cast<{}*>(a[{}])", type, i));
  }
  if (kernel.takes_layer) arguments.push_back("layer");
  if (kernel.takes_rows) arguments.push_back("rows");
  return fmt::format(
      "extern \"C\" void {0}__launch(void* const* a, int{1}, std::int64_t{2}) {{\n  {0}({3});\n}}\n",
      kernel.name, kernel.takes_layer ? " layer" : "", kernel.takes_rows ? " rows" : "",
      fmt::join(arguments, ", "));
}

}  // namespace

std::string cpu_source(const ir::Graph& graph, const Program& program) {
  std::set<std::string> headers = {"cpu/attention.h",    "cpu/embedding.h", "hydrac/dynamic_code.h",
                                   "hydrac/math.h",      "hydrac/nf4.h",    "hydrac/random.h",
                                   "hydrac/row_buffer.h"};
  for (const program::Kernel& kernel : program.kernels) {
    if (!kernel.header.empty()) headers.insert(kernel.header);
  }
  std::string includes = "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n\n";
  for (const std::string& header : headers) includes += fmt::format("#include \"{}\"\n", header);
  std::vector<const Call*> first_call(program.kernels.size(), nullptr);
  for (const Function& function : program.functions) {
    for (const Section& section : function.sections) {
      for (const Call& call : section.calls) {
        const auto* launch = std::get_if<program::Launch>(&call.work);
        if (launch && !first_call[launch->kernel]) first_call[launch->kernel] = &call;
      }
    }
  }
  std::string definitions;
  Names names;
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const program::Kernel& kernel = program.kernels[k];
    definitions += definition_text(kernel) + "\n" + launcher(graph, kernel, *first_call[k]);
    names.insert(kernel.names.begin(), kernel.names.end());
  }
  return fmt::format("{}\nnamespace hydrac {{\n\n{}{}\n}}  // namespace hydrac\n", includes,
                     program_constants(program, names), definitions);
}

}  // namespace hydrac::codegen
