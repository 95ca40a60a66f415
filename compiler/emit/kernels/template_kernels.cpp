#include "emit/kernels/template_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "codegen/spec_numbers.h"
#include "emit/kernels/kernels.h"
#include "emit/on_cpu.h"
#include "ir/words.h"
#include "ops/attention_rules.h"
#include "specialize/specialize.h"
#include "targets/target.h"

namespace hydrac::emit {

using program::Kernel;

namespace {

using Names = std::map<std::string, std::string, std::less<>>;

// Names that the text of a kernel finds in namespace hydrac.
const Names kQualified = {
#define MASK(kind, type) {#type, "hydrac::" #type},
    HYDRAC_ATTENTION_MASKS(MASK)
#undef MASK
        {"CappedScores", "hydrac::CappedScores"},
    {"DocumentMask", "hydrac::DocumentMask"},
    {"LinearScores", "hydrac::LinearScores"},
    {"bf16", "hydrac::bf16"},
    {"f8e4m3", "hydrac::f8e4m3"},
    {"f8e5m2", "hydrac::f8e5m2"},
    {"cpu", "hydrac::cpu"},
    {"cuda", "hydrac::cuda"},
    {"f16", "hydrac::f16"},
    {"launch_next_kernel", "hydrac::launch_next_kernel"},
    {"random_key", "hydrac::random_key"},
    {"wait_for_previous_kernel", "hydrac::wait_for_previous_kernel"}};

// And those of CUDA's attention; the cpu's are in a namespace of their own.
Names qualified(bool cpu) {
  Names names = kQualified;
  if (cpu) return names;
  for (const char* name : {"AttentionBlock", "AttentionDropout", "AttentionFamily", "AttentionShape",
                           "AttentionTile", "QueryTerms", "SequenceShape"})
    names[name] = std::string("hydrac::") + name;
  return names;
}

// The kernel over its template, as the specializer is to see it: outside of all namespaces.
std::string entry_text(const Kernel& kernel, bool cpu) {
  return fmt::format("{}#include \"{}\"\n#include \"dims.h\"\n\n{}",
                     kernel.waits_for_previous ? "#include \"cuda/previous_kernel.cuh\"\n" : "",
                     kernel.header, ir::with_words(commented_definition(kernel, cpu), qualified(cpu)));
}

// The same in the program's namespace, where names need less.
std::string unqualified(std::string text, const std::string& program, bool cpu) {
  text = replaced(text, program + "::", "");
  for (const auto& [name, full] : qualified(cpu)) text = replaced(text, full, name);
  return text;
}

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \n") == std::string::npos;
}

// `name` may be empty.
std::string in_namespace(const std::string& name, const std::string& text) {
  if (is_blank(text)) return "";
  const std::string space = name.empty() ? "namespace" : "namespace " + name;
  return fmt::format("{0} {{\n\n{1}\n}}  // {0}\n\n", space, text);
}

// Kernels that only the encoder of replies calls.
std::set<int> kernels_of_encoder(const program::Program& program) {
  std::set<int> own, others;
  for (const program::Function& function : program.functions)
    for (const program::Section& section : function.sections)
      for (const program::Call& call : section.calls)
        if (const auto* launch = std::get_if<program::Launch>(&call.work))
          (function.name == "embed" ? own : others).insert(launch->kernel);
  std::erase_if(own, [&](int kernel) { return others.contains(kernel); });
  return own;
}

}  // namespace

std::vector<TemplateKernels> template_kernels(const driver::Compiled& compiled) {
  const std::set<int> of_encoder = kernels_of_encoder(compiled.program);
  // By header, whether they read documents, and whether they are an encoder's.
  std::map<std::tuple<std::string, bool, bool>, TemplateKernels> groups;
  for (const auto& [file, kernels] : kernel_files(compiled.program, {})) {
    const Kernel& kernel = compiled.program.kernels[static_cast<size_t>(kernels.front())];
    if (!is_specialized(kernel)) continue;
    const bool has_documents = std::ranges::any_of(
        kernel.parameters, [](const program::Parameter& p) { return p.name == "documents"; });
    TemplateKernels& group = groups[{kernel.header, has_documents, of_encoder.contains(kernels.front())}];
    group.name = std::filesystem::path(kernel.header).stem().string();
    group.kernels.push_back(kernels.front());
  }
  std::vector<TemplateKernels> all;
  for (auto& [key, group] : groups) {
    const auto& [header, has_documents, is_of_encoder] = key;
    if (is_of_encoder)
      group.name += "_of_texts";
    else if (has_documents)
      group.name += "_of_documents";
    all.push_back(std::move(group));
  }
  return all;
}

std::map<std::string, SourceFile> template_files(const driver::Compiled& compiled,
                                                 const TemplateKernels& group) {
  const bool cpu = on_cpu(compiled);
  const std::string program = "hydrac::" + namespace_of(compiled.spec), space = group.name + "_code";
  specialize::SpecializeRequest request;
  codegen::Names names;
  for (const int k : group.kernels) {
    const Kernel& kernel = compiled.program.kernels[static_cast<size_t>(k)];
    request.entries.push_back(
        {fmt::format("kernels/{}.{}", kernel.name, cpu ? "cpp" : "cu"), entry_text(kernel, cpu)});
    names.insert(kernel.names.begin(), kernel.names.end());
  }
  request.headers.push_back(
      {"dims.h", "#pragma once\n#include <cstdint>\n" + codegen::program_constants(compiled.program, names)});
  request.library.push_back("dims.h");
  request.dialect = cpu ? specialize::Dialect::cpp : specialize::Dialect::cuda;
  if (!cpu) request.capability = targets::find(compiled.spec.target)->capability;
  request.scope = program + "::" + space;
  specialize::Specialized code = specialize::specialize(request);
  std::erase(code.includes, "\"dims.h\"");  // kernels.h has it

  std::map<std::string, SourceFile> files;
  const std::string& header = compiled.program.kernels[static_cast<size_t>(group.kernels.front())].header;
  const std::string path = fmt::format("kernels/{}.{}", group.name, cpu ? "h" : "cuh");
  const bool is_shared = !is_blank(code.shared);
  if (is_shared) {
    files[path] = {header + " for the sizes of this program: what its kernels share.", code.includes,
                   in_namespace(space, code.shared), ""};
    code.includes = {"\"" + path + "\""};
  }
  for (size_t i = 0; i < group.kernels.size(); ++i) {
    const int index = group.kernels[i];
    const std::string text = unqualified(code.entries[i].text, program, cpu);
    SourceFile& file = files[request.entries[i].path];
    file.comment = header + " for the sizes of this program.";
    file.includes = code.includes;
    file.includes.insert(file.includes.begin() + (is_shared ? 1 : 0), "\"kernels/kernels.h\"");
    if (!is_shared) file.includes.insert(file.includes.begin() + 1, "");
    file.body = in_namespace(space, code.entries[i].own);
    if (cpu) {
      file.body += text;
    } else {
      file.includes.push_back("\"runtime/cuda/launch.cuh\"");
      file.body += launch_using(compiled.program.kernels[static_cast<size_t>(index)]) + text + "\n" +
                   launcher(compiled, index, {});
    }
  }
  return files;
}

}  // namespace hydrac::emit
