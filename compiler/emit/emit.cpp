#include "emit/emit.h"

#include <fmt/format.h>

#include <future>

#include "emit/comments.h"
#include "emit/dims_file.h"
#include "emit/folder/build_files.h"
#include "emit/folder/plan_page.h"
#include "emit/folder/readme.h"
#include "emit/folder/runtime_files.h"
#include "emit/functions.h"
#include "emit/hooks.h"
#include "emit/hyper_file.h"
#include "emit/kernels/kernel_includes.h"
#include "emit/kernels/kernels.h"
#include "emit/kernels/template_kernels.h"
#include "emit/layout.h"
#include "emit/memory.h"
#include "emit/on_cpu.h"
#include "emit/program_class.h"
#include "emit/settings.h"
#include "emit/source_file.h"
#include "specialize/check.h"
#include "specialize/format.h"
#include "targets/executable/call_table.h"
#include "targets/target.h"

namespace hydrac::emit {

namespace {

class Emitter {
 public:
  Emitter(const driver::Compiled& compiled, const runtime::TrainSettings& settings, const Origin& origin,
          Hooks hooks)
      : compiled_(compiled),
        settings_(settings),
        origin_(origin),
        hooks_(hooks),
        cpu_(on_cpu(compiled)),
        dimensions_(compiled.graph),
        tensors_(compiled) {}

  Files emit() {
    header(kSizesFile, dims_file(compiled_));
    header("hyper.h", hyper_file(compiled_));
    add_memory();
    add_kernels();
    add_functions();
    add_program();
    if (hooks_ == Hooks::owned) add_hooks();
    add_main();
    std::vector<std::string> sources;
    for (const auto& [name, text] : files_) {
      if (name.ends_with(".cpp") || name.ends_with(".cu")) sources.push_back(name);
    }
    files_["CMakeLists.txt"] =
        cmake_lists(compiled_, data_kind(settings_.data, compiled_.spec), origin_, sources, uncontracted_);
    if (spec::rank_count(compiled_.spec) > 1) files_[kRanksScript] = ranks_script(origin_);
    check();
    files_["PLAN.md"] = plan_page(compiled_, tensors_, origin_);
    files_["README.md"] = readme(compiled_, data_kind(settings_.data, compiled_.spec), origin_);
    files_[".gitattributes"] = git_attributes(origin_);
    files_[".clang-format"] = clang_format(origin_);
    return std::move(files_);
  }

 private:
  void header(const std::string& name, const SourceFile& file) {
    files_[name] = specialize::formatted(header_text(compiled_.spec, origin_, file));
  }
  void source(const std::string& name, const SourceFile& file) {
    files_[name] = specialize::formatted(source_text(compiled_.spec, origin_, file));
  }

  std::string narrow_types() const;
  void add_memory();
  void add_kernels();
  Files template_group(const TemplateKernels& group) const;
  void add_functions();
  void add_program();
  void add_hooks();
  void add_main();
  void check() const;

  const driver::Compiled& compiled_;
  const runtime::TrainSettings& settings_;
  const Origin& origin_;
  const Hooks hooks_;
  const bool cpu_;
  std::vector<std::string> uncontracted_;  // files of kernels whose products and sums round twice
  const codegen::Dimensions dimensions_;
  const Tensors tensors_;
  Files files_;
};

// The names of a GPU's storage types, as far as the program has tensors of them.
std::string Emitter::narrow_types() const {
  std::string usings;
  for (const ir::DType dtype : {ir::DType::bf16, ir::DType::f16, ir::DType::f8e4m3, ir::DType::f8e5m2}) {
    if (std::ranges::any_of(compiled_.graph.values, [&](const ir::Value& v) { return v.dtype == dtype; }))
      usings += fmt::format("using hydrac::{};\n", c_type(dtype));
  }
  return usings;
}

void Emitter::add_memory() {
  std::string usings =
      "using hydrac::runtime::Arena;\nusing hydrac::runtime::Pack;\nusing hydrac::runtime::Slots;\n";
  std::vector<std::string> includes = {"<cstddef>", "<cstdint>", "", "\"dims.h\"",
                                       "\"runtime/program/slots.h\""};
  if (!cpu_) {
    usings = narrow_types() + usings;
    includes.insert(includes.end() - 2, "\"cuda/types.cuh\"");
  }
  header("memory.h", {"Every tensor of the program: its place, its shape, and what it shares its bytes with.",
                      includes, usings + "\n" + memory_header(compiled_, dimensions_, tensors_), ""});
}

std::string runtime_file(std::string_view path) {
  for (const RuntimeFile& file : runtime_files()) {
    if (file.path == path) return file.text;
  }
  throw std::logic_error(fmt::format("the runtime has no {}", path));
}

void Emitter::add_kernels() {
  const std::vector<KernelFamily> families = kernel_families(compiled_.program);
  std::vector<std::string> includes = {"<cstdint>", ""};
  std::string usings;
  if (!cpu_) {
    includes = {"<cuda_runtime_api.h>", "", "<cstdint>", "", "\"cuda/types.cuh\""};
    usings = narrow_types() + "\n";
  }
  includes.insert(includes.end(), {"\"dims.h\"", "\"hyper.h\""});
  header("kernels/kernels.h",
         {cpu_ ? "The kernels of the program."
               : "The kernels of the program, as functions that launch them on a stream.",
          includes, usings + kernel_declarations(compiled_, families), ""});
  // Clang takes tenths of a second for each group.
  std::vector<std::future<Files>> templates;
  for (const TemplateKernels& group : template_kernels(compiled_))
    templates.push_back(std::async(std::launch::async, [this, group] { return template_group(group); }));
  for (const auto& [file, kernels] : kernel_files(compiled_.program, families)) {
    const std::string name = "kernels/" + file + (cpu_ ? ".cpp" : ".cu");
    const program::Kernel& first = compiled_.program.kernels[static_cast<size_t>(kernels.front())];
    if (cpu_ || !may_contract(first)) uncontracted_.push_back(name);
    if (is_specialized(first)) continue;  // below
    SourceFile text{"Kernels: " + file + ".", {"\"kernels/kernels.h\"", ""}, "", ""};
    const std::string definitions = kernel_definitions(compiled_, families, kernels);
    for (const std::string& include : kernel_includes(first, definitions, cpu_))
      text.includes.push_back(include);
    if (!cpu_) text.body = launch_using(first);
    text.body += definitions;
    source(name, text);
  }
  for (std::future<Files>& files : templates) files_.merge(files.get());
}

Files Emitter::template_group(const TemplateKernels& group) const {
  Files files;
  for (const auto& [name, file] : template_files(compiled_, group)) {
    const bool is_source = name.ends_with(".cpp") || name.ends_with(".cu");
    files[name] = specialize::formatted(is_source ? source_text(compiled_.spec, origin_, file)
                                                  : header_text(compiled_.spec, origin_, file));
  }
  return files;
}

void Emitter::add_functions() {
  SourceFile step{"What a step is made of.", {"\"memory.h\""}, "", ""};
  const std::string of_ranks = spec::rank_count(compiled_.spec) == 1
                                   ? ""
                                   : "using hydrac::runtime::Collective;\nusing hydrac::runtime::RankGroup;\n"
                                     "using hydrac::runtime::Reduction;\n";
  if (cpu_) {
    step.includes.push_back("\"runtime/cpu/run.h\"");
    step.body = "using hydrac::runtime::Run;\n" + of_ranks + "\n";
  } else {
    step.includes.push_back("\"runtime/cuda/queue.h\"");
    step.body = "using hydrac::runtime::cuda::Mark;\nusing hydrac::runtime::cuda::Queue;\n" + of_ranks;
    if (!of_ranks.empty()) {
      step.includes.push_back("\"runtime/cuda/cuda_step_program.h\"");
      step.body += "using hydrac::runtime::cuda::CudaStepProgram;\nusing hydrac::runtime::cuda::elements;\n";
    }
    if (!cudnn_attentions(compiled_).empty()) {
      step.includes.push_back("\"runtime/cudnn/attention.h\"");
      step.body +=
          "using hydrac::runtime::cudnn::BackwardPointers;\nusing hydrac::runtime::cudnn::CudnnAttention;\n"
          "using hydrac::runtime::cudnn::ForwardPointers;\n"
          "using AttentionPlan = hydrac::runtime::cudnn::Plan;\n";
    }
    step.body += "\n";
  }
  if (hooks_ == Hooks::owned) {
    step.includes.push_back("\"runtime/program/hooks.h\"");
    step.body = "using hydrac::runtime::HookMemory;\n" + step.body;
  }
  step.body += step_declarations(compiled_, hooks_);
  header("step.h", step);
  for (const EmittedFunction& function : emitted_functions(compiled_, hooks_)) {
    std::vector<std::string> includes = {"\"kernels/kernels.h\"", "\"step.h\""};
    if (function.calls_hooks) includes.insert(includes.begin(), fmt::format("\"{}\"", kHooksHeader));
    if (!cpu_) includes.insert(includes.begin(), {"<nvtx3/nvtx3.hpp>", ""});
    source(function.file,
           {function.comment, includes, function_source(compiled_, dimensions_, tensors_, function), ""});
  }
}

void Emitter::add_program() {
  SourceFile declaration{"The program as the training loop drives it.", {"\"memory.h\""}, "", ""};
  SourceFile definition{"How the program runs its functions.", {"\"program.h\"", ""}, "", ""};
  if (cpu_) {
    declaration.includes.insert(
        declaration.includes.end(),
        {"\"runtime/app/train_run.h\"", "\"runtime/cpu/cpu_step_program.h\"", "\"runtime/cpu/run.h\""});
    declaration.body =
        "using hydrac::runtime::CpuStepProgram;\nusing hydrac::runtime::Function;\n"
        "using hydrac::runtime::ProgramLayout;\nusing hydrac::runtime::RecordedChoices;\n"
        "using hydrac::runtime::Run;\nusing hydrac::runtime::TrainSettings;\n\n";
    definition.includes.insert(definition.includes.end(), {"<omp.h>", "", "<stdexcept>", "<vector>", "",
                                                           "\"runtime/cache/cache_dir.h\"", "\"step.h\""});
    definition.body =
        "using hydrac::runtime::Blas;\nusing hydrac::runtime::BlasOptions;\n"
        "using hydrac::runtime::Gemm;\nusing hydrac::runtime::cache_dir;\n\n";
  } else {
    declaration.includes.insert(
        declaration.includes.end(),
        {"\"runtime/app/train_run.h\"", "\"runtime/cuda/cuda_step_program.h\"", "\"runtime/cuda/queue.h\""});
    declaration.body =
        "using hydrac::runtime::Function;\nusing hydrac::runtime::ProgramLayout;\n"
        "using hydrac::runtime::RecordedChoices;\nusing hydrac::runtime::TrainSettings;\nusing "
        "hydrac::runtime::cuda::Context;\nusing "
        "hydrac::runtime::cuda::CudaStepProgram;\n"
        "using hydrac::runtime::cuda::Matmuls;\nusing hydrac::runtime::cuda::Queue;\n";
    definition.includes.insert(definition.includes.end(),
                               {"<stdexcept>", "", "\"runtime/cache/cache_dir.h\"", "\"step.h\""});
    definition.body = "using hydrac::runtime::cache_dir;\nusing hydrac::runtime::cuda::GemmOptions;\n";
    if (!cudnn_attentions(compiled_).empty()) {
      declaration.includes.push_back("\"runtime/cudnn/attention.h\"");
      declaration.body +=
          "using hydrac::runtime::cudnn::CudnnAttention;\n"
          "using AttentionPlan = hydrac::runtime::cudnn::Plan;\n";
      definition.body += "using hydrac::runtime::cudnn::AttentionProblem;\n";
    }
    if (spec::rank_count(compiled_.spec) > 1)
      declaration.body += "using hydrac::runtime::cuda::gpu_of_this_process;\n";
    declaration.body += "\n";
    definition.body += "\n";
  }
  if (hooks_ == Hooks::owned) {
    declaration.body = "using hydrac::runtime::HookMemory;\n" + declaration.body;
    definition.includes.push_back(fmt::format("\"{}\"", kHooksHeader));
  }
  declaration.body += program_declaration(compiled_, hooks_);
  definition.body += program_definition(compiled_, dimensions_, hooks_);
  header("program.h", declaration);
  source("program.cpp", definition);
  source("layout.cpp",
         {"What the training loop reads and writes of the program's memory, and how it starts.",
          {"\"program.h\"", "\"runtime/program/layout_text.h\""},
          "using namespace hydrac::runtime;\n\n" + layout_source(compiled_, dimensions_, tensors_),
          ""});
  files_["calls.inc"] = provenance(origin_, "// ") +
                        "//\n// Every call of the program, as runtime/program/call_table.h says.\nR\"(" +
                        call_table(compiled_, targets::SpecPlaces::keys) + ")\"\n";
}

void Emitter::add_hooks() {
  header(kHooksHeader, hooks_header(compiled_));
  source(hooks_file(cpu_), empty_hooks(compiled_));
}

// hydrac writes nothing that does not parse.
void Emitter::check() const {
  specialize::EmittedProgram program;
  for (const auto& [name, text] : files_) {
    program.files.push_back({name, text});
  }
  program.runtime_headers = specialize::template_headers();
  for (const RuntimeFile& file : runtime_files()) {
    const std::string path = std::string("runtime/") + file.path;
    if (path.ends_with(".h") || path.ends_with(".cuh") || path.ends_with(".def"))
      program.runtime_headers.push_back({path, file.text});
  }
  if (!cpu_) program.capability = targets::find(compiled_.spec.target)->capability;
  specialize::check_parses(program);
  check_comments(files_);
}

void Emitter::add_main() {
  const DataKind kind = data_kind(settings_.data, compiled_.spec);
  source(
      "settings.cpp",
      {"What the spec says about a run.",
       {"\"program.h\""},
       fmt::format("{}using hydrac::runtime::DataSettings;\n{}{}using "
                   "hydrac::runtime::TrainOptions;\n\n{}",
                   settings_.data.curriculum.steps > 0 ? "using hydrac::runtime::CurriculumOrder;\n" : "",
                   settings_.encoder.folder.empty() ? "" : "using hydrac::runtime::EncoderFolder;\n",
                   settings_.train.objective.prompts > 0 ? "using hydrac::runtime::ObjectiveSettings;\n" : "",
                   settings_source(settings_)),
       ""});
  std::vector<std::string> includes = {"<memory>", "", "\"program.h\"", "\"runtime/app/train_main.h\"",
                                       "\"" + corpus_header(kind) + "\""};
  if (cpu_) includes.insert(includes.end() - 1, "\"runtime/cpu/idle_threads.h\"");
  if (spec::encoder_of_replies(compiled_.spec))
    includes.insert(includes.end() - 1, "\"runtime/encoder/open_encoder.h\"");
  source("train.cpp", {"main().", includes, "", main_source(compiled_.spec, kind)});
  source("library.cpp",
         {"libtrain.so: the program behind the functions of train.h, most of which are the runtime's.",
          {"<memory>", "", "\"program.h\"", "\"runtime/c_interface/c_interface.h\""},
          "",
          library_source(compiled_.spec)});
  files_["train.h"] = provenance(origin_, "// ") + "//\n" + runtime_file("c_interface/train.h");
  files_["identity.inc"] =
      provenance(origin_, "// ") +
      "//\n// What of the spec must be the same when a run is resumed: keys and values.\n" +
      identity_table(settings_);
  files_["spec.inc"] = provenance(origin_, "// ") +
                       "//\n// The spec as it was resolved, for the run's folder.\n" +
                       string_literal(settings_.train.spec_text) + "\n";
}

}  // namespace

Files emit(const driver::Compiled& compiled, const runtime::TrainSettings& settings, const Origin& origin,
           Hooks hooks) {
  return Emitter(compiled, settings, origin, hooks).emit();
}

}  // namespace hydrac::emit
