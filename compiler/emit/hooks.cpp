#include "emit/hooks.h"

#include <fmt/format.h>

#include "emit/calls.h"
#include "emit/on_cpu.h"
#include "emit/writer.h"

namespace hydrac::emit {

namespace {

struct Hook {
  const char *comment, *name;
  bool is_of_layer = false;
};
constexpr Hook kHooks[] = {
    {"After layer `layer` of a micro-batch's forward pass: m.act.residual[layer + 1] is the stream behind "
     "it.",
     "after_layer", true},
    {"After a micro-batch's backward pass: m.grads has the sums of the step's micro-batches so far.",
     "after_backward"},
    {"Before clipping and the optimizer: m.grads are the step's gradients.", "before_update"},
    {"After the optimizer, before the step's numbers are read.", "after_update"},
};

std::string declaration(const driver::Compiled& compiled, const Hook& hook) {
  return fmt::format("void {}(const Memory& m, const HookMemory& own, {}{});", hook.name,
                     run_parameter(compiled), hook.is_of_layer ? ", int layer" : "");
}

// It uses none of its parameters, so they have no names.
std::string empty_definition(const driver::Compiled& compiled, const Hook& hook) {
  return fmt::format("void {}(const Memory&, const HookMemory&, {}{}) {{}}", hook.name,
                     on_cpu(compiled) ? "const Run&" : "Run&", hook.is_of_layer ? ", int /*layer*/" : "");
}

constexpr const char* kOnCpu = "They run where they are called, and every step.";
constexpr const char* kOnGpu =
    "They queue kernels on run.main.stream(). A step is captured once, as a CUDA graph: kernels run every\n"
    "// step, code of the host around them does not.";

}  // namespace

std::string hooks_file(bool on_cpu) {
  return on_cpu ? "hooks.cpp" : "hooks.cu";
}

bool is_hooks_file(const std::string& name) {
  return name == hooks_file(true) || name == hooks_file(false);
}

bool has_hooks(const std::filesystem::path& folder) {
  std::error_code unreadable;  // whoever reads the folder reports it
  return std::filesystem::exists(folder / hooks_file(true), unreadable) ||
         std::filesystem::exists(folder / hooks_file(false), unreadable);
}

SourceFile hooks_header(const driver::Compiled& compiled) {
  const bool cpu = on_cpu(compiled);
  Writer out;
  out.line("using hydrac::runtime::HookMemory;");
  out.line("using hydrac::runtime::MetricText;");
  out.line("");
  out.line("// Names of the numbers own.metrics[0], [1] and so on, which a step reports beside its loss.");
  out.line("std::vector<MetricText> hook_metrics();");
  out.line("// Bytes of own.scratch, which no other code touches.");
  out.line("std::size_t hook_scratch_bytes();");
  for (const Hook& hook : kHooks) {
    out.line("");
    out.line(std::string("// ") + hook.comment);
    out.line(declaration(compiled, hook));
  }
  return {fmt::format("What {} defines: code of the program's owner within a training step.\n// {}",
                      hooks_file(cpu), cpu ? kOnCpu : kOnGpu),
          {"<cstddef>", "<vector>", "", "\"runtime/program/hooks.h\"", "\"step.h\""},
          out.text(),
          ""};
}

SourceFile empty_hooks(const driver::Compiled& compiled) {
  Writer out;
  out.line("std::vector<MetricText> hook_metrics() { return {}; }");
  out.line("std::size_t hook_scratch_bytes() { return 0; }");
  for (const Hook& hook : kHooks) {
    out.line("");
    out.line(empty_definition(compiled, hook));
  }
  return {
      "This file is yours. hydrac wrote it once, and from now on checks that it defines what hooks.h "
      "declares.",
      {"\"hooks.h\""},
      out.text(),
      "",
      /*is_owned=*/true};
}

}  // namespace hydrac::emit
