#include "emit/folder/plan_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "driver/floor.h"
#include "emit/functions.h"
#include "emit/source_file.h"
#include "runtime/log/units.h"
#include "targets/executable/program_layout.h"

namespace hydrac::emit {

namespace {

std::string bytes_text(double bytes) {
  return runtime::human_bytes(static_cast<uint64_t>(bytes));
}

std::string ms_text(double seconds) {
  return seconds > 0 ? fmt::format("{:.3f}", seconds * 1e3) : "";
}

class PlanPage {
 public:
  PlanPage(const driver::Compiled& compiled, const Tensors& tensors)
      : compiled_(compiled),
        tensors_(tensors),
        target_(*targets::find(compiled.spec.target)),
        peaks_(driver::peaks_of(target_, compiled.spec.optimizations.precision)) {}

  std::string print() {
    summary();
    for (const EmittedFunction& function : emitted_functions(compiled_)) calls(function);
    memory();
    decisions();
    return text_;
  }

 private:
  void line(const std::string& text = "") { text_ += text + "\n"; }
  void summary();
  void calls(const EmittedFunction& function);
  void memory();
  void decisions();

  const driver::Compiled& compiled_;
  const Tensors& tensors_;
  const targets::Target& target_;
  const driver::Peaks peaks_;
  std::string text_;
};

void PlanPage::summary() {
  const spec::Train& t = compiled_.spec.train;
  const int64_t ranks = spec::rank_count(compiled_.spec), groups = compiled_.spec.parallel.data;
  const driver::StepWork work = driver::step_work(compiled_);
  line(fmt::format("# {} on {}", compiled_.spec.name, target_.name));
  line();
  line("| | |");
  line("| --- | ---: |");
  line(fmt::format("| parameters | {} |", targets::parameter_count(compiled_)));
  line(fmt::format("| tokens of an optimizer step | {} |",
                   t.micro_batch_size * t.sequence_len * t.gradient_accumulation_steps * groups));
  if (ranks > 1) {
    line(fmt::format("| ranks; what follows is of each | {} |", ranks));
    if (compiled_.pack.sharing_ranks > 1)
      line(fmt::format("| of the optimizer's state, that of so many parameters | 1/{} |", ranks));
    line(fmt::format("| bytes that a rank sends in a step | {} |", driver::bytes_sent_per_step(compiled_)));
  }
  line(fmt::format("| calls of a step | {} |", work.calls));
  line(fmt::format("| flop of a step | {} |", runtime::human_count(work.flop)));
  line(fmt::format("| bytes that its calls move | {} |", bytes_text(work.bytes)));
  if (work.floor_seconds > 0) line(fmt::format("| floor of a step, ms | {} |", ms_text(work.floor_seconds)));
  line(fmt::format("| tensor memory, bytes | {} |", compiled_.plan.device_bytes()));
  if (compiled_.plan.host_bytes > 0)
    line(fmt::format("| and in the host's memory | {} |", compiled_.plan.host_bytes));
  line();
  if (work.floor_seconds > 0) {
    line(fmt::format(
        "The floor of a call is what the peaks of the {} would take for it: {:.0f} TFLOP/s for matmuls and "
        "attention, {:.0f} GB/s for everything that is read and written.",
        target_.name, peaks_.flops * 1e-12, peaks_.bytes_per_second * 1e-9));
    line();
  }
}

void PlanPage::calls(const EmittedFunction& function) {
  line(fmt::format("## {}", function.file));
  line();
  line("| call | makes | flop | bytes | floor, ms |");
  line("| --- | --- | ---: | ---: | ---: |");
  for (int s : function.sections) {
    const program::Section& section = function.source->sections[static_cast<size_t>(s)];
    line(fmt::format("| **{}**{} | | | | |", section.name,
                     section.layers > 0 ? fmt::format(", {} times", section.layers) : ""));
    for (const program::Call& call : section.calls) {
      std::string makes = call.results.empty() ? "scratch memory" : "";
      for (ir::Use use : call.results) {
        makes += fmt::format("{}{} {}", makes.empty() ? "" : ", ", tensors_.short_text(use),
                             symbols_of(compiled_.graph.value(use).shape));
      }
      line(fmt::format("| {} | {} | {} | {} | {} |", name_of(compiled_.program, call), makes,
                       call.flop > 0 ? runtime::human_count(call.flop) : "",
                       call.bytes > 0 ? bytes_text(call.bytes) : "",
                       ms_text(driver::floor_seconds(peaks_, call))));
    }
  }
  line();
}

void PlanPage::memory() {
  line("## Memory");
  line();
  line(fmt::format(
      "The arena has {} bytes. The first {} live as long as the program, and of these the first {} are "
      "inputs, which the host writes in one piece. In the rest, tensors share bytes when they are never "
      "alive at the same time.",
      compiled_.plan.arena_bytes, compiled_.plan.persistent_bytes, compiled_.plan.input_bytes));
  if (compiled_.plan.exchange_bytes > 0)
    line(fmt::format("Of it, {} from {} on are for numbers that ranks copy from each other.",
                     compiled_.plan.exchange_bytes, compiled_.plan.exchange_offset));
  if (compiled_.plan.host_bytes > 0)
    line(fmt::format(
        "Its last {} lie in the host's memory and live as long too{}.", compiled_.plan.host_bytes,
        compiled_.plan.kept_bytes > 0 ? fmt::format(", and so do {} before them", compiled_.plan.kept_bytes)
                                      : ""));
  line();
  line("| offset | bytes | tensor | shape | of |");
  line("| ---: | ---: | --- | --- | --- |");
  std::vector<std::pair<plan::Placement, ir::ValueId>> order;
  for (const auto& [id, placement] : compiled_.plan.placements) order.emplace_back(placement, id);
  std::ranges::stable_sort(order, {}, [](const auto& entry) { return entry.first.offset; });
  for (const auto& [placement, id] : order) {
    const ir::Value& value = compiled_.graph.value(id);
    line(fmt::format("| {} | {} | {} | {}{} | {} |", placement.offset, placement.bytes(), value.name,
                     value.shape.empty() ? "scalar" : symbols_of(value.shape),
                     placement.slots > 1 ? fmt::format(" x {}", placement.slots) : "",
                     to_string(value.role)));
  }
  line();
}

void PlanPage::decisions() {
  line("## What the passes decided");
  line();
  std::string pass;
  for (const passes::Decision& decision : compiled_.decisions) {
    if (decision.pass != pass) line(fmt::format("{}- {}", pass.empty() ? "" : "", decision.pass));
    pass = decision.pass;
    line("  - " + decision.text);
  }
}

}  // namespace

std::string plan_page(const driver::Compiled& compiled, const Tensors& tensors, const Origin& origin) {
  return "<!-- " + provenance(origin, "") + "-->\n" + PlanPage(compiled, tensors).print();
}

}  // namespace hydrac::emit
