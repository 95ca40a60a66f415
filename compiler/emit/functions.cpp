#include "emit/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "emit/calls.h"
#include "emit/kernels/kernels.h"
#include "emit/on_cpu.h"
#include "emit/queue_waits.h"
#include "emit/writer.h"
#include "models/adapter.h"
#include "targets/target.h"

namespace hydrac::emit {

namespace {

std::vector<int> range(int first, int last) {
  std::vector<int> numbers;
  for (int i = first; i < last; ++i) numbers.push_back(i);
  return numbers;
}

// Splits a step: the sections before the backward pass of the blocks, and the rest.
void split_step(const driver::Compiled& compiled, const program::Function& step, Hooks hooks,
                std::vector<EmittedFunction>& functions) {
  const std::vector<ir::Region>& regions = compiled.graph.function(step.name).regions;
  int split = 0;
  while (split < static_cast<int>(step.sections.size()) &&
         !(regions[static_cast<size_t>(split)].backward &&
           step.sections[static_cast<size_t>(split)].name != "head"))
    ++split;
  const int end = static_cast<int>(step.sections.size());
  functions.push_back(
      {"forward", "forward.cpp",
       "Forward pass of one micro-batch, its loss, and the loss's gradient as far as the head.", &step,
       range(0, split), hooks == Hooks::owned});
  if (split == end) return;  // the head alone trains
  functions.push_back({"backward", "backward.cpp",
                       "Backward pass of one micro-batch: adds to the gradients of all parameters.", &step,
                       range(split, end)});
}

// Functions of a program with an objective beside a step's.
struct OfReplies {
  const char *function, *name, *file, *comment;
};
constexpr OfReplies kOfReplies[] = {
    {"prefill", "read_prompts", "prefill.cpp",
     "Logits behind the last token of each prompt, whose keys and values are kept."},
    {"decode", "decode_tokens", "decode.cpp",
     "Logits behind the next token of every sequence, from the keys and values of those before."},
    {"score", "score_replies", "score.cpp",
     "The loss of each token of a batch of replies, their embeddings, and how far these are apart."},
    {"score_base", "score_by_base", "score_base.cpp",
     "The loss of each token of a batch of replies by the model without its adapter."},
    {"embed", "embed_replies", "embed.cpp",
     "What the encoder makes of a batch of replies' texts is added to their embeddings; how far these are "
     "apart."},
};
constexpr const char* kScoreBesideEncoder = "The loss of each token of a batch of replies.";

std::string parameters(const driver::Compiled& compiled, const EmittedFunction& function) {
  return fmt::format("const Memory& m, {}{}", function.calls_hooks ? "const HookMemory& own, " : "",
                     run_parameter(compiled));
}

// The hook behind an iteration l of a loop over layers, of which each may compute several; "" behind others.
std::string after_layer(const driver::Compiled& compiled, const EmittedFunction& function, int section) {
  const ir::Region& region =
      compiled.graph.function(function.source->name).regions[static_cast<size_t>(section)];
  if (!region.name.starts_with("block")) return "";
  const int of_iteration = spec::layers_of_iteration(compiled.spec);
  const int first = region.first_layer * of_iteration + of_iteration - 1;
  std::string layer = of_iteration == 1 ? "{0}" : fmt::format("{} * {{0}}", of_iteration);
  if (first > 0) layer += fmt::format(" + {}", first);
  return "after_layer(m, own, run, " + layer + ");";
}

}  // namespace

std::vector<EmittedFunction> emitted_functions(const driver::Compiled& compiled, Hooks hooks) {
  const spec::Model& model = compiled.spec.model;
  const bool drops = model.dropout > 0 || model.attention_dropout > 0 ||
                     (models::has_adapters(compiled.spec) && compiled.spec.adapter.dropout > 0);
  std::vector<EmittedFunction> functions;
  for (const program::Function& function : compiled.program.functions) {
    const std::vector<int> all = range(0, static_cast<int>(function.sections.size()));
    if (function.name == "micro_step") split_step(compiled, function, hooks, functions);
    if (function.name == "update")
      functions.push_back(
          {"update_parameters", "optimizer.cpp", "The end of an optimizer step.", &function, all});
    if (function.name == "evaluate")
      functions.push_back({"evaluate_batch", "evaluate.cpp",
                           drops ? "Loss of one batch, without dropout." : "Loss of one batch.", &function,
                           all});
    if (function.name == "generate") {
      functions.push_back({"next_token_logits", "generate.cpp",
                           "Logits of the token after a prompt's position.", &function, all});
    }
    for (const OfReplies& known : kOfReplies) {
      if (function.name != known.function) continue;
      const bool embeds_nothing = function.name == "score" && spec::encoder_of_replies(compiled.spec);
      functions.push_back(
          {known.name, known.file, embeds_nothing ? kScoreBesideEncoder : known.comment, &function, all});
    }
    if (function.name == "load") {
      functions.push_back({"copy_weights", "load.cpp",
                           "The copies of the parameters that matmuls read, after parameters were loaded.",
                           &function, all});
    }
  }
  return functions;
}

std::set<program::Queue> forked_queues(const driver::Compiled& compiled) {
  std::set<program::Queue> queues;
  if (on_cpu(compiled)) return queues;
  for (const program::Function& function : compiled.program.functions)
    queues.merge(queue_waits(compiled, function).forks);
  return queues;
}

std::map<std::string, CudnnAttention> cudnn_attentions(const driver::Compiled& compiled) {
  std::map<std::string, CudnnAttention> attentions;
  for (const program::Function& function : compiled.program.functions) {
    for (const program::Section& section : function.sections) {
      for (const program::Call& call : section.calls) {
        const auto* attention = std::get_if<program::Attention>(&call.work);
        if (!attention) continue;
        const ir::Use workspace = attention->tensors(call.arguments).workspace;
        const int64_t bytes = compiled.plan.placements.at(workspace.value).slot_bytes;
        CudnnAttention& known = attentions[attention_name(compiled, attention->shape)];
        known.workspace_bytes = known.workspace_bytes == 0 ? bytes : std::min(known.workspace_bytes, bytes);
        known.shape = attention->shape;
      }
    }
  }
  return attentions;
}

std::string step_declarations(const driver::Compiled& compiled, Hooks hooks) {
  Writer out;
  if (!on_cpu(compiled)) {
    out.line("// What a function's calls are put on, to become part of a CUDA graph.");
    out.open("struct Run {");
    out.line("const Queue& main;");
    const std::set<program::Queue> forks = forked_queues(compiled);
    if (forks.contains(program::Queue::side)) {
      out.line(
          "// The side stream: what only makes gradients of parameters, which nobody reads before the "
          "update,");
      out.line("// overlaps with the rest there.");
      out.line("const Queue& side;");
    }
    if (forks.contains(program::Queue::communication)) {
      out.line("// Sums of gradients over ranks, which nobody reads before the update either.");
      out.line("const Queue& communication;");
    }
    if (forks.contains(program::Queue::host_copies)) {
      out.line(
          "// Copies of what the backward pass reads, to the host's memory and back a layer ahead of it.");
      out.line("const Queue& host_copies;");
    }
    if (spec::rank_count(compiled.spec) > 1) out.line("const CudaStepProgram& ranks;");
    if (const auto attentions = cudnn_attentions(compiled); !attentions.empty()) {
      out.line("CudnnAttention& cudnn;");
      for (const auto& [name, attention] : attentions)
        out.line(fmt::format("const AttentionPlan& {};", name));
    }
    std::map<std::string, bool> marks;  // and whether they are two
    for (const program::Function& function : compiled.program.functions) {
      const QueueWaits waits = queue_waits(compiled, function);
      for (const auto& [position, name] : waits.marks) marks[name] = waits.by_turns.contains(position);
    }
    if (!marks.empty())
      out.line("// Points that another branch waits for, named after the call before them.");
    for (const auto& [mark, is_two] : marks)
      out.line(fmt::format("Mark {}{} = {{}};", mark, is_two ? "[2]" : ""));
    out.close("};");
    out.line("");
  }
  for (const EmittedFunction& function : emitted_functions(compiled, hooks)) {
    out.line("// " + function.comment);
    out.line(fmt::format("void {}({});", function.name, parameters(compiled, function)));
  }
  return out.text();
}

std::string function_source(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                            const Tensors& tensors, const EmittedFunction& function) {
  const CallText text(compiled, dimensions, tensors, *function.source);
  const int first = function.sections.front();
  if (function.sections.size() == 1 && function.source->sections[static_cast<size_t>(first)].layers == 0)
    return text.definition(first, function.name);
  std::string body = "namespace {\n\n";
  for (int section : function.sections) body += text.definition(section) + "\n";
  body += fmt::format("}}  // namespace\n\nvoid {}({}) {{\n", function.name, parameters(compiled, function));
  if (!on_cpu(compiled))
    body += fmt::format("  const nvtx3::scoped_range range{{nvtx3::message{{\"{}\"}}}};\n", function.name);
  for (int section : function.sections)
    body += text.statement(section, function.calls_hooks ? after_layer(compiled, function, section) : "");
  return body + "}\n";
}

}  // namespace hydrac::emit
