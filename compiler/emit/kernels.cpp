#include "emit/kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>

#include "emit/on_cpu.h"

namespace hydrac::emit {

using program::Kernel;

namespace {

std::string trimmed(std::string text) {
  const size_t first = text.find_first_not_of(" \n"), last = text.find_last_not_of(" \n");
  return first == std::string::npos ? "" : text.substr(first, last + 1 - first);
}

struct Signature {
  size_t begin = 0;            // of the name
  size_t open = 0, close = 0;  // the parenthesis before the parameters, the end of their last line
};

Signature signature_of(const Kernel& kernel) {
  Signature s;
  s.begin = kernel.text.find(" " + kernel.name + "(");
  if (s.begin == std::string::npos)
    throw std::logic_error("kernel " + kernel.name + " does not define itself");
  s.begin += 1;
  s.open = s.begin + kernel.name.size();
  s.close = kernel.text.find('\n', kernel.text.find(") {", s.open));
  return s;
}

}  // namespace

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

// One a line: "    const bf16* __restrict__ x,  // [B,T,C]".
std::vector<Parameter> parameters_of(const Kernel& kernel) {
  const Signature s = signature_of(kernel);
  std::vector<Parameter> parameters;
  std::istringstream lines(kernel.text.substr(s.open + 1, s.close - s.open - 1));
  for (std::string line; std::getline(lines, line);) {
    const size_t comment = std::min(line.find("//"), line.size());
    Parameter parameter;
    if (comment < line.size()) parameter.shape = trimmed(line.substr(comment + 2));
    std::string declaration = trimmed(replaced(line.substr(0, comment), "__restrict__", ""));
    for (const char* end : {",", ") {"}) {
      if (declaration.ends_with(end)) declaration.resize(declaration.size() - std::string(end).size());
    }
    if (declaration.empty()) continue;
    const size_t name = declaration.find_last_of(" *") + 1;
    parameter.type = trimmed(declaration.substr(0, name));
    parameter.name = declaration.substr(name);
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

std::map<std::string, std::vector<int>> kernel_files(const program::Program& program) {
  std::map<std::string, std::vector<int>> files;
  std::set<int> seen;
  for (const program::Function& function : program.functions) {
    for (const program::Section& section : function.sections) {
      for (const program::Call& call : section.calls) {
        if (call.kind != program::Call::Kind::launch || !seen.insert(call.kernel).second) continue;
        const Kernel& kernel = program.kernels[static_cast<size_t>(call.kernel)];
        const bool of_step = function.name == "micro_step";
        std::string file = of_step ? section.name : function.name == "load" ? "update" : function.name;
        if (!kernel.header.empty()) file = kernel.name;  // its template's code comes with it
        files[file].push_back(call.kernel);
      }
    }
  }
  return files;
}

namespace {

// Scratch memory whose type only the kernel's template knows is any memory to the host.
bool is_private(const Parameter& parameter) {
  return parameter.type.find("cuda::") != std::string::npos;
}

// Dynamic shared memory that must be asked for.
bool needs_shared_memory(const Kernel& kernel) {
  return kernel.launch.shared_bytes > 48 * 1024;
}

// One a line, so that each can have its shape behind it.
std::string host_parameters(const Kernel& kernel, bool cpu) {
  std::vector<Parameter> list = parameters_of(kernel);
  if (!cpu) list.push_back({"cudaStream_t", "stream", ""});
  std::string text = "\n";
  for (size_t i = 0; i < list.size(); ++i) {
    const Parameter& p = list[i];
    text += fmt::format("    {} {}{}{}\n", is_private(p) ? "void*" : p.type, p.name,
                        i + 1 < list.size() ? "," : ")", p.shape.empty() ? "" : "  // " + p.shape);
  }
  return text;
}

// What it computes, and the spec's key that asked for it.
std::string comment_of(const Kernel& kernel) {
  std::string comment =
      kernel.comment.substr(std::min(kernel.comment.find_first_not_of('\n'), kernel.comment.size()));
  if (!kernel.origin.empty()) comment += "\nSpec: " + kernel.origin + ".";
  return "// " + replaced(comment, "\n", "\n// ") + "\n";
}

// How emitted code declares a kernel: on a GPU a function launches it that has the kernel's name.
std::string declared(const Kernel& kernel, bool cpu) {
  std::string text = kernel.text;
  if (cpu) return replaced(text, "static void " + kernel.name, "void " + kernel.name);
  text.insert(signature_of(kernel).open, "_kernel");
  return replaced(text, "extern \"C\" __global__", "__global__");
}

std::string definition(const Kernel& kernel, bool cpu) {
  const std::string text = declared(kernel, cpu);
  return comment_of(kernel) +
         (cpu ? text : "namespace {\n\n" + text + "\n}  // namespace\n\n" + launcher(kernel, ""));
}

}  // namespace

std::string commented_definition(const Kernel& kernel, bool cpu) {
  return comment_of(kernel) + declared(kernel, cpu);
}

std::string launcher(const Kernel& kernel, const std::string& space) {
  const std::string code = kernel.name + "_kernel";
  std::vector<std::string> names;
  for (const Parameter& p : parameters_of(kernel)) {
    const std::string type = p.type.substr(p.type.rfind(':') + 1);
    names.push_back(is_private(p) ? fmt::format("static_cast<{}::{}>({})", space, type, p.name) : p.name);
  }
  std::string text = fmt::format("void {}({} {{\n", kernel.name, host_parameters(kernel, false));
  if (needs_shared_memory(kernel))
    text += fmt::format("  allow_shared_memory({}, {});\n", code, kernel.launch.shared_bytes);
  const std::string format = kernel.waits_for_previous
                                 ? "  launch_behind_kernel({}, {}, {}, {}, stream, {});\n"
                                 : "  {}<<<{}, {}, {}, stream>>>({});\n";
  text += fmt::format(fmt::runtime(format), code, kernel.grid, kernel.launch.block,
                      kernel.launch.shared_bytes, fmt::join(names, ", "));
  return text + fmt::format("  check_launch(\"{}\");\n}}\n", kernel.name);
}

std::string launch_usings(const std::vector<const Kernel*>& kernels) {
  std::string text;
  if (std::any_of(kernels.begin(), kernels.end(), [](const Kernel* k) { return needs_shared_memory(*k); }))
    text += "using hydrac::runtime::cuda::allow_shared_memory;\n";
  text += "using hydrac::runtime::cuda::check_launch;\n";
  if (std::any_of(kernels.begin(), kernels.end(), [](const Kernel* k) { return k->waits_for_previous; }))
    text += "using hydrac::runtime::cuda::launch_behind_kernel;\n";
  return text + "\n";
}

std::string kernel_declarations(const driver::Compiled& compiled) {
  const bool cpu = on_cpu(compiled);
  std::string text;
  for (const auto& [file, kernels] : kernel_files(compiled.program)) {
    text += fmt::format("// ---- {}.{}\n\n", file, cpu ? "cpp" : "cu");
    for (int k : kernels) {
      const Kernel& kernel = compiled.program.kernels[static_cast<size_t>(k)];
      text += fmt::format("void {}({};\n\n", kernel.name, host_parameters(kernel, cpu));
    }
  }
  return text;
}

std::string kernel_definitions(const driver::Compiled& compiled, const std::vector<int>& kernels) {
  std::string text;
  for (int k : kernels)
    text += "\n" + definition(compiled.program.kernels[static_cast<size_t>(k)], on_cpu(compiled));
  return text;
}

std::string attention_name(const driver::Compiled& compiled, const program::AttentionCall& attention) {
  const bool generates = attention.batch == 1 && compiled.spec.train.micro_batch_size != 1;
  return fmt::format("{}attention{}", generates ? "generation_" : "", attention.backward ? "_gradients" : "");
}

}  // namespace hydrac::emit
