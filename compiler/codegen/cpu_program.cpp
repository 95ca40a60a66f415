#include "codegen/cpu_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/cpu_body.h"
#include "codegen/cpu_library.h"
#include "codegen/expression_text.h"
#include "codegen/operand_names.h"
#include "program/cost.h"

namespace hydrac::codegen {

namespace {

using program::Call;
using program::Function;
using program::GemmShape;
using program::Program;
using program::Section;

// "cross_entropy+mean_loss_backward+..." -> a name of bearable length.
std::string short_name(const std::string& fused_name) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= fused_name.size();) {
    const size_t plus = std::min(fused_name.find('+', at), fused_name.size());
    parts.push_back(fused_name.substr(at, plus - at));
    at = plus + 1;
  }
  if (parts.size() <= 3) {
    std::string name;
    for (const std::string& part : parts) name += (name.empty() ? "" : "_") + part;
    return identifier(name);
  }
  return identifier(fmt::format("{}_{}_and_{}_more", parts[0], parts[1], parts.size() - 2));
}

std::string readable(const std::string& fused_name) {
  std::string text;
  for (char c : fused_name) text += c == '+' ? std::string(" + ") : std::string(1, c);
  return text;
}

class CpuProgramBuilder {
 public:
  CpuProgramBuilder(ir::Graph& graph, int threads) : graph_(graph), threads_(threads) {}

  Program run() {
    for (ir::Function& function : graph_.functions) {
      Function out{function.name, {}};
      for (ir::Region& region : function.regions) {
        Section section{region.name, region.layers, region.reverse, {}};
        for (ir::Node& node : region.nodes) section.calls.push_back(call_for(region, node));
        out.sections.push_back(std::move(section));
      }
      program_.functions.push_back(std::move(out));
    }
    return std::move(program_);
  }

 private:
  Call call_for(const ir::Region& region, ir::Node& node) {
    const ops::Cost cost = program::cost_of(graph_, node);
    Call call = node.op == "gemm" ? gemm(node) : launch(region, node);
    call.flop = cost.flop;
    call.bytes = cost.bytes;
    call.label = graph_.value(node.outputs[0]).name;
    return call;
  }

  Call gemm(const ir::Node& node) const {
    const ir::Shape &a = graph_.value(node.inputs[0]).shape, &c = graph_.value(node.outputs[0]).shape;
    Call call;
    call.kind = Call::Kind::gemm;
    call.arguments = {node.inputs[0], node.inputs[1], node.outputs[0]};
    GemmShape& shape = call.gemm;
    shape.transpose_a = node.flag("transpose_a");
    shape.transpose_b = node.flag("transpose_b");
    shape.accumulate = node.flag("accumulate");
    shape.first_overwrites = node.optional_flag("first_overwrites");
    shape.n = c.back().size;
    shape.m = element_count(c) / shape.n;
    shape.k = shape.transpose_a ? element_count(a) / a.back().size : a.back().size;
    return call;
  }

  Call launch(const ir::Region& region, ir::Node& node) {
    KernelSource source =
        node.op == "fused" ? cpu_kernel(graph_, node) : cpu_library_kernel(graph_, node, threads_);
    Call call;
    call.arguments = source.arguments;
    if (source.workspace_bytes > 0) call.arguments.push_back(workspace(region, node, source));
    call.kernel = kernel_for(source, node);
    return call;
  }

  // Scratch memory is a value that the node writes, so that the memory plan gives it a place.
  ir::Use workspace(const ir::Region& region, ir::Node& node, const KernelSource& source) {
    ir::Value value;
    value.name = short_name(source.name) + ".workspace";
    value.shape = {{(source.workspace_bytes + 3) / 4, ""}};
    value.slots = std::max(region.layers, 1);
    const ir::Use use{graph_.add(std::move(value)), {region.layers > 0, 0}};
    node.outputs.push_back(use);
    return use;
  }

  int kernel_for(const KernelSource& source, const ir::Node& node) {
    if (auto found = by_text_.find(source.text); found != by_text_.end()) return found->second;
    const int kernel = static_cast<int>(program_.kernels.size());
    std::string name = short_name(source.name);
    const int count = ++names_[name];
    if (count > 1) name += fmt::format("_{}", count);
    std::string text = source.text;
    const std::string placeholder = kNamePlaceholder;
    text.replace(text.find(placeholder), placeholder.size(), name);
    program_.kernels.push_back(
        {name, fmt::format("{}: {}", readable(source.name), source.comment), text, node.origin});
    by_text_[source.text] = kernel;
    return kernel;
  }

  ir::Graph& graph_;
  int threads_;
  Program program_;
  std::map<std::string, int> by_text_;
  std::map<std::string, int> names_;
};

}  // namespace

Program build_cpu_program(ir::Graph& graph, int threads) {
  return CpuProgramBuilder(graph, threads).run();
}

namespace {

// Casts the launcher's untyped arguments to what the kernel's parameters are, in the order of the call.
std::string launcher(const ir::Graph& graph, const program::Kernel& kernel, const Call& call) {
  std::string arguments;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const auto type = c_type(graph.value(call.arguments[i]).dtype);
    arguments += fmt::format("static_cast<{}*>(a[{}]), ", type, i);
  }
  return fmt::format("extern \"C\" void {0}__launch(void* const* a, int layer) {{\n  {0}({1}layer);\n}}\n",
                     kernel.name, arguments);
}

}  // namespace

std::string cpu_source(const ir::Graph& graph, const Program& program) {
  std::string text =
      "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n\n#include \"cpu/attention.h\"\n"
      "#include \"cpu/embedding.h\"\n#include \"hydrac/math.h\"\n#include \"hydrac/random.h\"\n";
  std::vector<const Call*> first_call(program.kernels.size(), nullptr);
  for (const Function& function : program.functions) {
    for (const Section& section : function.sections) {
      for (const Call& call : section.calls) {
        if (call.kind == Call::Kind::launch && !first_call[call.kernel]) first_call[call.kernel] = &call;
      }
    }
  }
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const program::Kernel& kernel = program.kernels[k];
    text +=
        fmt::format("\n// {}\n{}\n{}", kernel.comment, kernel.text, launcher(graph, kernel, *first_call[k]));
  }
  return text;
}

}  // namespace hydrac::codegen
