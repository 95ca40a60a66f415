#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "program/program.h"

namespace hydrac::program {

namespace {

std::string text_of(const GemmShape& g) {
  return fmt::format("gemm {}{} {}x{}x{}{}{}{}{}{}", g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N',
                     g.m, g.n, g.k, g.batch > 1 ? fmt::format(", {} of them", g.batch) : "",
                     g.groups > 0 ? fmt::format(", rows in {} groups", g.groups) : "",
                     g.is_f8() ? fmt::format(" {}*{}", to_string(g.a), to_string(g.b)) : "",
                     g.bias ? " + bias" : "",
                     !g.accumulate        ? ""
                     : g.first_overwrites ? " +=, first ="
                                          : " +=");
}

}  // namespace

std::string name_of(const Program& program, const Call& call) {
  const Overloaded name{
      [&](const Launch& launch) { return program.kernels[static_cast<size_t>(launch.kernel)].name; },
      [](const Gemm& gemm) { return text_of(gemm.shape); },
      [](const Attention& attention) {
        return std::string(attention.shape.backward ? "cudnn attention backward" : "cudnn attention");
      },
      [](const Zero&) { return std::string("zero"); },
      [](const Copy&) { return std::string("copy"); },
      [](const Collective& collective) { return std::string(to_string(collective.kind)); }};
  return std::visit(name, call.work);
}

bool may_contract(const Kernel& kernel) {
  return !kernel.header.empty() && kernel.maps.empty();
}

std::vector<Grid> grids_of(const Program& program, int kernel) {
  std::vector<Grid> grids;
  for (const Function& function : program.functions) {
    for (const Section& section : function.sections) {
      for (const Call& call : section.calls) {
        const auto* launch = std::get_if<Launch>(&call.work);
        if (launch && launch->kernel == kernel && std::ranges::count(grids, launch->grid) == 0)
          grids.push_back(launch->grid);
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

}  // namespace hydrac::program
