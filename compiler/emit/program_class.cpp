#include "emit/program_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/number_text.h"
#include "emit/functions.h"
#include "emit/on_cpu.h"
#include "emit/queue_waits.h"
#include "emit/sizes.h"
#include "emit/tensors.h"
#include "emit/writer.h"
#include "program/for_each_matmul.h"
#include "targets/executable/executable.h"
#include "targets/target.h"

namespace hydrac::emit {

using program::Call;
using program::Queue;

namespace {

// How many ranks share layers decides the order of sums.
void set_layers(Writer& out, const spec::Spec& spec) {
  if (spec.parallel.tensor > 1)
    out.line(fmt::format("choices.set(\"sums\", \"layers\", \"{} ranks\");", spec.parallel.tensor));
}

// The statements that run a function of the program, hooks among them. `joined`: what waits for its other
// queues.
std::vector<std::string> statements_of(const driver::Compiled& compiled, const program::Function& function,
                                       const std::string& run, Hooks hooks,
                                       const std::vector<std::string>& joined = {}) {
  const bool has_hooks = hooks == Hooks::owned;
  const auto hook = [&](const char* name) { return fmt::format("{}(memory_, hooks_, {});", name, run); };
  std::vector<std::string> statements;
  if (has_hooks && function.name == "update") statements.push_back(hook("before_update"));
  for (const EmittedFunction& emitted : emitted_functions(compiled, hooks)) {
    if (emitted.source == &function)
      statements.push_back(
          fmt::format("{}(memory_, {}{});", emitted.name, emitted.calls_hooks ? "hooks_, " : "", run));
  }
  statements.insert(statements.end(), joined.begin(), joined.end());
  if (has_hooks && function.name == "micro_step") statements.push_back(hook("after_backward"));
  if (has_hooks && function.name == "update") statements.push_back(hook("after_update"));
  return statements;
}

constexpr const char* kAddHooks = "hooks_(add_hooks(hook_metrics(), hook_scratch_bytes()))";

std::string cpu_definition(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                           Hooks hooks) {
  Writer out;
  out.line("namespace {");
  out.line("");
  out.line("// What the BLAS libraries are timed with, once on a machine: each matmul of a step.");
  out.open("std::vector<Gemm> matmuls() {");
  out.open("return {");
  for_each_matmul(compiled.program, program::Matmuls::step,
                  [&](const Call& call, const program::GemmShape& shape) {
                    const MatmulText text = matmul_text(compiled.graph, dimensions, call);
                    out.line(fmt::format("{{.m = {}, .n = {}, .k = {}{}{}{}}},", text.m, text.n, text.k,
                                         shape.transpose_a ? ", .trans_a = true" : "",
                                         shape.transpose_b ? ", .trans_b = true" : "",
                                         shape.accumulate ? ", .beta = 1.0f" : ""));
                  });
  out.close("};");
  out.close();
  out.line("");
  out.open("Blas open_blas(const RecordedChoices& recorded) {");
  out.line("omp_set_num_threads(kThreads);");
  out.line("BlasOptions options;");
  out.line("options.shapes = matmuls();");
  out.line("options.recorded = recorded;");
  out.line("options.cache_file = (cache_dir() / \"blas-choices\").string();");
  out.line("return Blas::open(options);");
  out.close();
  out.line("");
  out.line("}  // namespace");
  out.line("");
  out.open("std::string Program::description() const {");
  out.line("return \"compiled ahead of time, matmuls by \" + run_.blas().name() + \", \" +");
  out.line("       std::to_string(kThreads) + \" threads\";");
  out.close();
  out.line("");
  out.open("RecordedChoices Program::choices() const {");
  out.line("RecordedChoices choices = run_.blas().choices();");
  out.line("choices.set(\"kernels\", \"compiler\", __VERSION__);");
  if (const std::string sums = targets::sums_of_ranks(compiled.spec); !sums.empty())
    out.line(fmt::format("choices.set(\"sums\", \"micro-batches\", \"{}\");", sums));
  set_layers(out, compiled.spec);
  out.line("return choices;");
  out.close();
  out.line("");
  out.line("Program::Program(const RecordedChoices& recorded)");
  out.line(fmt::format(
      "    : CpuStepProgram(program_layout()), memory_(arena()), {}run_(open_blas(recorded){}) {{}}",
      hooks == Hooks::owned ? fmt::format("{}, ", kAddHooks) : "",
      spec::rank_count(compiled.spec) > 1 ? ", *this" : ""));
  out.line("");
  out.open("void Program::execute(Function function) {");
  out.open("switch (function) {");
  for (const program::Function& function : compiled.program.functions) {
    out.line("case Function::" + function.name + ":");
    for (const std::string& statement : statements_of(compiled, function, "run_", hooks))
      out.line("  " + statement);
    out.line("  return;");
  }
  out.line("default:");
  out.line("  throw std::logic_error(\"the program has no such function\");");
  out.close();
  out.close();
  return out.text();
}

// Elements from one batch, token and head to the next: of a tensor in whose rows `width` elements lie.
std::string strides_text(const codegen::Dimensions& dimensions, const ir::Shape& query,
                         const program::AttentionShape::Strides& s, const ir::Shape& packed) {
  const int64_t head = query[3].size;
  const std::string tokens = size_text(dimensions, query[1]), width = size_text(dimensions, query[3]);
  for (const ir::Shape& row : {packed, ir::Shape{query[2], query[3]}}) {
    const std::string elements = elements_text(dimensions, row);
    if (s.token == element_count(row) && s.batch == s.token * query[1].size && s.head == head)
      return fmt::format("{{{} * {}, {}, {}}}", tokens, elements, elements, width);
  }
  return fmt::format("{{{}, {}, {}}}", s.batch, s.token, s.head);
}

// As a function of the batch: "attention_problem(B)".
void attention_problem(Writer& out, const codegen::Dimensions& dimensions, const std::string& name,
                       const program::AttentionShape& a) {
  const ir::Dim T{a.tokens, "T"}, H{a.heads, "H"}, K{a.kv_heads, a.kv_heads == a.heads ? "H" : "K"},
      D{a.head_dim, "D"};
  const ir::Shape query = {{a.batch, "B"}, T, H, D}, packed = {{(a.heads + 2 * a.kv_heads) * a.head_dim,
                                                                a.kv_heads == a.heads ? "3HD" : "(H+2K)D"}};
  const ir::Shape keys = {{a.batch, "B"}, T, K, D};
  out.open(fmt::format("AttentionProblem {}_problem(std::int64_t batch) {{", name));
  out.line("AttentionProblem problem;");
  out.line("problem.batch = batch;");
  const std::pair<const char*, ir::Dim> sizes[] = {
      {"tokens", T}, {"heads", H}, {"kv_heads", K}, {"head_dim", D}};
  for (const auto& [member, dim] : sizes)
    out.line(fmt::format("problem.{} = {};", member, size_text(dimensions, dim)));
  out.line(fmt::format("problem.scale = {};", codegen::number_text(static_cast<float>(a.scale))));
  if (!hides_later_keys(a.rules)) out.line("problem.causal = false;");
  if (a.dtype == ir::DType::f16) out.line("problem.bf16 = false;");
  // Tensors that lie alike are assigned together: "problem.q = problem.k = problem.v = {...};".
  std::vector<std::pair<std::string, std::string>> alike;
  const auto strides = [&](const std::string& member, const ir::Shape& shape,
                           const program::AttentionShape::Strides& s) {
    const std::string text = strides_text(dimensions, shape, s, packed);
    const auto same = std::ranges::find(alike, text, &std::pair<std::string, std::string>::first);
    if (same == alike.end()) {
      alike.emplace_back(text, "problem." + member);
    } else {
      same->second += " = problem." + member;
    }
  };
  strides("q", query, a.q);
  strides("k", keys, a.k);
  strides("v", keys, a.v);
  strides("out", query, a.out);
  if (a.backward) {
    strides("d_out", query, a.d_out);
    strides("d_q", query, a.d_q);
    strides("d_k", keys, a.d_k);
    strides("d_v", keys, a.d_v);
  }
  for (const auto& [text, members] : alike) out.line(fmt::format("{} = {};", members, text));
  out.line("return problem;");
  out.close();
  out.line("");
}

// The attention that differs from `attention` in nothing but its batch and is defined before it: its name, or
// the name of `attention`.
std::string problem_of(const std::map<std::string, CudnnAttention>& attentions, const std::string& name) {
  for (const auto& [other, attention] : attentions) {
    program::AttentionShape shape = attention.shape;
    shape.batch = attentions.at(name).shape.batch;
    if (other == name || shape == attentions.at(name).shape) return other;
  }
  return name;
}

// The element type of A and B, then C's: "bf16, float"; B's is last where it differs.
std::string matmul_types(const program::GemmShape& shape) {
  const std::string b = shape.a == shape.b ? "" : fmt::format(", {}", c_type(shape.b));
  return fmt::format("{}, {}{}", c_type(shape.a), c_type(shape.c), b);
}

void plan_matmuls(Writer& out, const driver::Compiled& compiled, const codegen::Dimensions& dimensions) {
  out.line("// Every matmul of the program. Its algorithm is measured once on a machine, then remembered.");
  out.open("void plan_matmuls(Matmuls& matmuls) {");
  for_each_matmul(compiled.program, program::Matmuls::all,
                  [&](const Call& call, const program::GemmShape& shape) {
                    const MatmulText text = matmul_text(compiled.graph, dimensions, call);
                    std::string kind;
                    if (shape.bias) kind = ".bias = true";
                    if (shape.accumulate)
                      kind += kind.empty() ? ".accumulate = true" : ", .accumulate = true";
                    if (shape.beside) kind += kind.empty() ? ".side_stream = true" : ", .side_stream = true";
                    if (shape.batch > 1)
                      kind += fmt::format("{}.batch = {}", kind.empty() ? "" : ", ", shape.batch);
                    if (shape.fast_sums) kind += kind.empty() ? ".fast_sums = true" : ", .fast_sums = true";
                    out.line(fmt::format("matmuls.plan_{}<{}>({}, {}, {}{});", text.name, matmul_types(shape),
                                         text.m, text.n, text.k, kind.empty() ? "" : ", {" + kind + "}"));
                  });
  out.close();
  out.line("");
}

// True if the side queue needs a library's workspace: it may consist of our kernels alone.
bool multiplies_on_side(const driver::Compiled& compiled) {
  bool multiplies = false;
  for_each_matmul(compiled.program, program::Matmuls::all,
                  [&](const Call&, const program::GemmShape& shape) { multiplies |= shape.beside; });
  return multiplies;
}

std::string run_text(const driver::Compiled& compiled) {
  std::string text = "Run run{main_";
  for (const Queue queue : forked_queues(compiled)) text += fmt::format(", {}_", to_string(queue));
  if (spec::rank_count(compiled.spec) > 1) text += ", *this";
  const auto attentions = cudnn_attentions(compiled);
  if (!attentions.empty()) text += ", cudnn_";
  for (const auto& [name, attention] : attentions) text += ", " + name + "_";
  return text + "};";
}

std::string cuda_definition(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                            Hooks hooks) {
  Writer out;
  out.line("namespace {");
  out.line("");
  plan_matmuls(out, compiled, dimensions);
  const auto attentions = cudnn_attentions(compiled);
  for (const auto& [name, attention] : attentions) {
    if (problem_of(attentions, name) == name) attention_problem(out, dimensions, name, attention.shape);
  }
  out.open("GemmOptions matmul_options(const RecordedChoices& recorded) {");
  out.line("GemmOptions options;");
  out.line("options.recorded = recorded;");
  out.line(fmt::format("options.workspace_bytes = {};",
                       driver::gemm_workspace_bytes(*targets::find(compiled.spec.target))));
  out.line("options.cache_file = cache_dir() / \"cublaslt-choices\";");
  out.line("return options;");
  out.close();
  out.line("");
  out.line("}  // namespace");
  out.line("");
  const bool tf32 = compiled.spec.optimizations.precision == spec::Precision::tf32;
  const std::set<Queue> forks = forked_queues(compiled);
  const char* device_bytes = compiled.plan.host_bytes > 0 ? "kArenaBytes - kHostBytes" : "kArenaBytes";
  out.line("Program::Program(const RecordedChoices& recorded)");
  out.line("    : CudaStepProgram(program_layout(), context),");
  out.line("      memory_(arena()),");
  if (hooks == Hooks::owned) out.line(fmt::format("      {},", kAddHooks));
  out.line(fmt::format("      matmuls_(context, matmul_options(recorded), {}, {{arena(), {}}}),",
                       tf32 ? "/*tf32=*/true" : "/*tf32=*/false", device_bytes));
  if (!attentions.empty()) out.line("      cudnn_(context.device(), cache_dir(), recorded),");
  for (const auto& [name, attention] : attentions) {
    const std::string problem = fmt::format("{}_problem({})", problem_of(attentions, name),
                                            size_text(dimensions, {attention.shape.batch, "B"}));
    const std::string plan =
        attention.shape.backward
            ? fmt::format("backward({})", problem)
            : fmt::format("fastest_forward({}, stream(), arena(), {})", problem, device_bytes);
    out.line(fmt::format("      {}_(cudnn_.{}),", name, plan));
  }
  std::string queues = "      main_(stream(), matmuls_, memory_.state.gemm_workspace)";
  if (forks.contains(Queue::side))
    queues += fmt::format(",\n      side_(side_stream(), matmuls_, {}, Queue::Branch::second)",
                          multiplies_on_side(compiled) ? "memory_.state.gemm_workspace_side" : "nullptr");
  if (forks.contains(Queue::communication))
    queues += ",\n      communication_(communication(), matmuls_, nullptr)";
  if (forks.contains(Queue::host_copies)) queues += ",\n      host_copies_(host_copies(), matmuls_, nullptr)";
  out.append(queues + " {\n");
  Writer body(1);
  for (const auto& [name, attention] : attentions)
    body.line(fmt::format("require_workspace({}_, {});", name, attention.workspace_bytes));
  body.line("plan_matmuls(matmuls_);");
  if (!compiled.spec.optimizations.cuda_graph)
    body.line("use_graphs(false);");
  else if (spec::rank_count(compiled.spec) == 1)  // others are captured once their ranks have met
    body.line("capture_graphs();");
  out.append(body.text());
  out.line("}");
  out.line("");
  out.open("std::string Program::description() const {");
  out.line("return \"compiled ahead of time for \" + context.device().name + \", matmuls by \" +");
  out.line("       matmuls_.library().version();");
  out.close();
  out.line("");
  out.open("RecordedChoices Program::choices() const {");
  const int64_t ranks = spec::rank_count(compiled.spec);
  if (attentions.empty() && ranks == 1) {
    out.line("return matmuls_.library().choices();");
  } else {
    out.line("RecordedChoices choices = matmuls_.library().choices();");
    if (!attentions.empty()) out.line("choices.add(cudnn_.choices());");
    if (ranks > 1)
      out.line(fmt::format(
          "if (!sums_by().empty()) choices.set(\"sums\", \"ranks\", \"{} by \" + sums_by());", ranks));
    set_layers(out, compiled.spec);
    out.line("return choices;");
  }
  out.close();
  out.line("");
  out.open("void Program::enqueue(Function function) {");
  out.line(run_text(compiled));
  out.open("switch (function) {");
  for (const program::Function& function : compiled.program.functions) {
    out.line("case Function::" + function.name + ":");
    const std::set<Queue> own_forks = queue_waits(compiled, function).forks;
    for (const Queue queue : own_forks) out.line(fmt::format("  {}_.follow(main_);", to_string(queue)));
    std::vector<std::string> joined;
    for (const Queue queue : own_forks)
      joined.push_back(queue == Queue::communication ? "await_sums();"
                                                     : fmt::format("main_.follow({}_);", to_string(queue)));
    for (const std::string& statement : statements_of(compiled, function, "run", hooks, joined))
      out.line("  " + statement);
    out.line("  return;");
  }
  out.line("default:");
  out.line("  throw std::logic_error(\"the program has no such function\");");
  out.close();
  out.close();
  return out.text();
}

}  // namespace

std::string program_declaration(const driver::Compiled& compiled, Hooks hooks) {
  Writer out;
  const char* hook_memory = hooks == Hooks::owned ? "HookMemory hooks_;" : nullptr;
  out.line("// Where everything lies in memory, for the training loop; layout.cpp.");
  out.line("ProgramLayout program_layout();");
  out.line("// What the spec says about a run, other than the program itself; settings.cpp.");
  out.line("TrainSettings train_settings();");
  out.line("");
  if (on_cpu(compiled)) {
    out.open("class Program final : public CpuStepProgram {");
    out.line(" public:");
    out.line("// `recorded`: the choices of a checkpoint, to be repeated.");
    out.line("explicit Program(const RecordedChoices& recorded = {});");
    out.line("");
    out.line(" private:");
    out.line("void execute(Function function) override;");
    out.line("std::string description() const override;");
    out.line("RecordedChoices choices() const override;");
    out.line("");
    out.line("Memory memory_;");
    if (hook_memory) out.line(hook_memory);
    out.line("Run run_;");
    out.close("};");
    return out.text();
  }
  out.line("// The GPU's context, which must be there before the program and after it.");
  out.open("struct OnGpu {");
  const int64_t ranks = spec::rank_count(compiled.spec);
  out.line(ranks > 1 ? fmt::format("Context context{{gpu_of_this_process({})}};", ranks)
                     : "Context context{0};");
  out.close("};");
  out.line("");
  out.open("class Program final : private OnGpu, public CudaStepProgram {");
  out.line(" public:");
  out.line("// `recorded`: the choices of a checkpoint, to be repeated.");
  out.line("explicit Program(const RecordedChoices& recorded = {});");
  out.line("~Program() override { shut_down(); }");
  out.line("");
  out.line(" private:");
  out.line("void enqueue(Function function) override;");
  out.line("std::string description() const override;");
  out.line("RecordedChoices choices() const override;");
  out.line("");
  out.line("Memory memory_;");
  if (hook_memory) out.line(hook_memory);
  out.line("Matmuls matmuls_;");
  const auto attentions = cudnn_attentions(compiled);
  if (!attentions.empty()) out.line("CudnnAttention cudnn_;");
  for (const auto& [name, attention] : attentions) out.line(fmt::format("AttentionPlan {}_;", name));
  out.line("Queue main_;");
  for (const Queue queue : forked_queues(compiled)) out.line(fmt::format("Queue {}_;", to_string(queue)));
  out.close("};");
  return out.text();
}

std::string program_definition(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                               Hooks hooks) {
  return on_cpu(compiled) ? cpu_definition(compiled, dimensions, hooks)
                          : cuda_definition(compiled, dimensions, hooks);
}

}  // namespace hydrac::emit
