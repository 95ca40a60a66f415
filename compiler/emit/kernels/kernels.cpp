#include "emit/kernels/kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "codegen/cuda/kernel.h"
#include "emit/kernels/kernel_families.h"
#include "emit/kernels/repeated_constants.h"
#include "emit/kernels/workspace_constants.h"
#include "emit/on_cpu.h"
#include "ir/words.h"

namespace hydrac::emit {

using program::Kernel;
using program::Parameter;

namespace {

// Position of the parameters' parenthesis.
size_t parenthesis_of(const Kernel& kernel) {
  const size_t name = kernel.text.find(" " + kernel.name + "(");
  if (name == std::string::npos) throw std::logic_error("kernel " + kernel.name + " does not define itself");
  return name + 1 + kernel.name.size();
}

}  // namespace

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

bool takes_rows(const program::Program& program, int kernel) {
  if (program.kernels[static_cast<size_t>(kernel)].takes_rows) return true;
  const std::vector<program::Grid> grids = grids_of(program, kernel);
  return std::ranges::any_of(grids, [&](const program::Grid& g) { return g.blocks != grids[0].blocks; });
}

bool is_specialized(const Kernel& kernel) {
  return std::filesystem::path(kernel.header).filename().string().starts_with("attention.");
}

namespace {

// The file of a kernel that a section calls first.
std::string file_of(const Kernel& kernel, const program::Function& function,
                    const program::Section& section) {
  if (is_specialized(kernel) || !kernel.maps.empty()) return kernel.name;
  if (!kernel.header.empty()) return std::filesystem::path(kernel.header).stem().string();
  const bool of_step = function.name == "micro_step";
  return of_step ? section.name : function.name == "load" ? "update" : function.name;
}

}  // namespace

std::map<std::string, std::vector<int>> kernel_files(const program::Program& program,
                                                     const std::vector<KernelFamily>& families) {
  std::map<std::string, std::vector<int>> files;
  std::set<int> seen;
  for (const program::Function& function : program.functions) {
    for (const program::Section& section : function.sections) {
      for (const program::Call& call : section.calls) {
        const auto* launch = std::get_if<program::Launch>(&call.work);
        if (!launch || !seen.insert(launch->kernel).second) continue;
        const FamilyMember member = member_of(families, launch->kernel);
        if (member.family && !member.is_first()) continue;
        std::vector<int>& list =
            files[file_of(program.kernels[static_cast<size_t>(launch->kernel)], function, section)];
        list.push_back(launch->kernel);
        if (!member.family) continue;
        for (const KernelVariant& variant : member.family->variants) {
          if (variant.kernel != launch->kernel) list.push_back(variant.kernel);
        }
      }
    }
  }
  return files;
}

namespace {

// Parameters of a host function: the kernel's, with matrices in place of their tensor maps; on a GPU also the
// stream.
std::vector<Parameter> host_parameters(const driver::Compiled& compiled, int kernel) {
  const Kernel& definition = compiled.program.kernels[static_cast<size_t>(kernel)];
  std::vector<Parameter> list = definition.parameters;
  for (size_t i = 0; i < list.size(); ++i) {
    if (i < definition.maps.size())
      list[i].type = fmt::format("const {}*", to_string(definition.maps[i].dtype));
  }
  if (on_cpu(compiled)) return list;
  if (takes_rows(compiled.program, kernel)) list.push_back({"std::int64_t", "rows", ""});
  list.push_back({"cudaStream_t", "stream", ""});
  return list;
}

// One a line, so that each can have its shape behind it.
std::string with_shapes(const std::vector<Parameter>& parameters) {
  std::string text = "\n";
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    text += fmt::format("    {} {}{}{}\n", p.type, p.name, i + 1 < parameters.size() ? "," : ")",
                        p.shape.empty() ? "" : "  // " + p.shape);
  }
  return text;
}

std::string without_shapes(const std::vector<Parameter>& parameters) {
  std::string text;
  for (const Parameter& p : parameters)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", p.type, p.name);
  return text + ")";
}

// The computation, and the spec's key that asked for it.
std::string comment_of(const Kernel& kernel) {
  std::string comment =
      kernel.comment.substr(std::min(kernel.comment.find_first_not_of('\n'), kernel.comment.size()));
  if (!kernel.origin.empty()) comment += "\nSpec: " + kernel.origin + ".";
  return "// " + replaced(comment, "\n", "\n// ") + "\n";
}

// The runtime's function that launches it.
std::string launch_function(const Kernel& kernel) {
  return kernel.waits_for_previous ? "launch_behind_kernel" : "launch_kernel";
}

// "{B * T, C, 128, 64}": the matrix and the boxes in which it is copied.
std::string map_text(const driver::Compiled& compiled, int index, size_t argument) {
  const program::MatrixMap& map = compiled.program.kernels[static_cast<size_t>(index)].maps[argument];
  const codegen::Dimensions dimensions(compiled.graph);
  for (const program::Function& function : compiled.program.functions) {
    for (const program::Section& section : function.sections) {
      for (const program::Call& call : section.calls) {
        const auto* launch = std::get_if<program::Launch>(&call.work);
        if (!launch || launch->kernel != index) continue;
        const ir::Shape& shape = compiled.graph.value(call.arguments[argument]).shape;
        const ir::Shape rows(shape.begin(), shape.end() - 1);
        return fmt::format("{{{}, {}, {}}}", dimensions.of(rows).code.text,
                           dimensions.of(shape.back()).code.text, map.box);
      }
    }
  }
  throw std::logic_error(compiled.program.kernels[static_cast<size_t>(index)].name + " is never called");
}

// How emitted code declares a kernel: on a GPU a function launches it that has the kernel's name.
std::string declared(const Kernel& kernel, bool cpu) {
  std::string text = kernel.text;
  if (cpu) return replaced(text, "static void " + kernel.name, "void " + kernel.name);
  text.insert(parenthesis_of(kernel), "_kernel");
  return replaced(text, "extern \"C\" __global__", "static __global__");
}

}  // namespace

std::string commented_definition(const Kernel& kernel, bool cpu) {
  std::string text = declared(kernel, cpu);
  const std::string sizes = fmt::format("}}  // namespace {}_sizes\n\n", kernel.name);
  const size_t behind = text.find(sizes);
  return text.insert(behind == std::string::npos ? 0 : behind + sizes.size(), comment_of(kernel));
}

namespace {

// How a kernel is called: it is a function, or an instance of its family's template.
struct Instance {
  std::string named_after;             // whose constants it has
  std::string function;                // "add_layernorm_kernel<16>"
  std::vector<std::string> arguments;  // names of its own parameters, null for those that it has not
};

Instance instance_of(const driver::Compiled& compiled, int index, const FamilyMember& member) {
  const int named_after = member.family ? member.family->variants.front().kernel : index;
  const Kernel& kernel = compiled.program.kernels[static_cast<size_t>(named_after)];
  Instance instance{kernel.name, kernel.name + "_kernel", {}};
  if (member.family) instance.function += fmt::format("<{}>", fmt::join(member.variant->arguments, ", "));
  for (const Parameter& parameter : kernel.parameters) {
    const bool is_missing = member.family && std::ranges::count(member.variant->missing, parameter.name) > 0;
    instance.arguments.push_back(is_missing ? "nullptr" : parameter.name);
  }
  return instance;
}

// The cpu's functions of a family call their template.
std::string template_call(const driver::Compiled& compiled, int index, const FamilyMember& member) {
  const Instance instance = instance_of(compiled, index, member);
  return fmt::format("void {}({} {{\n  {}({});\n}}\n",
                     compiled.program.kernels[static_cast<size_t>(index)].name,
                     without_shapes(host_parameters(compiled, index)), instance.function,
                     fmt::join(instance.arguments, ", "));
}

// The template under the comment of its largest kernel.
std::string commented_template(const driver::Compiled& compiled, const KernelFamily& family, bool cpu) {
  Kernel kernel = compiled.program.kernels[static_cast<size_t>(family.variants.front().kernel)];
  kernel.text = family.text;
  if (!family.flag.empty()) {
    const auto least = std::ranges::max_element(
        family.variants, {}, [](const KernelVariant& variant) { return variant.missing.size(); });
    kernel.comment +=
        fmt::format("\nWithout {}, {} {} null.", family.flag, fmt::join(least->missing, " and "),
                    least->missing.size() > 1 ? "are" : "is");
  }
  if (!cpu) return commented_definition(kernel, cpu);
  return comment_of(kernel) +
         replaced(kernel.text, "static void " + kernel.name, "static void " + kernel.name + "_kernel");
}

// Assertions that the kernel's text relies on, for each number of rows that it is called with.
std::string assertions(const driver::Compiled& compiled, int index) {
  std::set<std::string> lines;
  const Kernel& kernel = compiled.program.kernels[static_cast<size_t>(index)];
  for (const std::string& bound : kernel.bounds) {
    for (const program::Grid& grid : grids_of(compiled.program, index))
      lines.insert(fmt::format(
          "  static_assert({});\n",
          ir::with_words(bound,
                         {{"rows", grid.rows}, {codegen::kWorkspaceBytes, workspace_constant(kernel)}})));
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

}  // namespace

std::string launcher(const driver::Compiled& compiled, int index, const FamilyMember& member) {
  const Kernel& kernel = compiled.program.kernels[static_cast<size_t>(index)];
  const Instance instance = instance_of(compiled, index, member);
  std::string arguments;
  for (size_t i = 0; i < instance.arguments.size(); ++i) {
    const std::string& name = instance.arguments[i];
    arguments +=
        ", " + (i < kernel.maps.size() ? fmt::format("tensor_map({}, {})", name, map_text(compiled, index, i))
                                       : name);
  }
  const std::string blocks = takes_rows(compiled.program, index)
                                 ? kernel.blocks_of_rows
                                 : grids_of(compiled.program, index).at(0).text;
  return fmt::format(
      "void {0}({1} {{\n  using namespace {2}_sizes;\n{3}  {4}(\"{0}\", {5}, {{{6}, kThreads{7}}}, "
      "stream{8});\n}}\n",
      kernel.name, without_shapes(host_parameters(compiled, index)), instance.named_after,
      assertions(compiled, index), launch_function(kernel), instance.function, blocks,
      kernel.block.shared_bytes == 0 ? "" : ", kSharedBytes", arguments);
}

std::string launch_using(const Kernel& kernel) {
  return fmt::format("using hydrac::runtime::cuda::{};\n{}\n", launch_function(kernel),
                     kernel.maps.empty() ? "" : "using hydrac::runtime::cuda::tensor_map;\n");
}

std::string kernel_declarations(const driver::Compiled& compiled, const std::vector<KernelFamily>& families) {
  const bool cpu = on_cpu(compiled);
  std::string text = workspace_constants(compiled);
  for (const auto& [file, kernels] : kernel_files(compiled.program, families)) {
    text += fmt::format("// ---- {}.{}\n\n", file, cpu ? "cpp" : "cu");
    for (int k : kernels) {
      const Kernel& kernel = compiled.program.kernels[static_cast<size_t>(k)];
      text += fmt::format("void {}({};\n\n", kernel.name, with_shapes(host_parameters(compiled, k)));
    }
  }
  return text;
}

std::string kernel_definitions(const driver::Compiled& compiled, const std::vector<KernelFamily>& families,
                               const std::vector<int>& kernels) {
  std::string text;
  const bool cpu = on_cpu(compiled);
  RepeatedConstants constants;
  for (int k : kernels) {
    const FamilyMember member = member_of(families, k);
    if (!member.family) {
      const Kernel& kernel = compiled.program.kernels[static_cast<size_t>(k)];
      text += "\n" + constants.take(kernel.name, commented_definition(kernel, cpu));
    } else if (member.is_first()) {
      text += "\n" + commented_template(compiled, *member.family, cpu);
    }
    if (!cpu) text += "\n" + launcher(compiled, k, member);
    if (cpu && member.family) text += "\n" + template_call(compiled, k, member);
  }
  return text;
}

std::string attention_name(const driver::Compiled& compiled, const program::AttentionShape& attention) {
  const bool generates = attention.batch == 1 && compiled.spec.train.micro_batch_size != 1;
  return fmt::format("{}attention{}", generates ? "generation_" : "", attention.backward ? "_gradients" : "");
}

}  // namespace hydrac::emit
