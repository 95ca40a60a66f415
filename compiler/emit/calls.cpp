#include "emit/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/operand_names.h"
#include "emit/functions.h"
#include "emit/kernels/kernels.h"
#include "emit/on_cpu.h"
#include "emit/writer.h"
#include "ir/words.h"
#include "targets/target.h"

namespace hydrac::emit {

using program::Call;
using program::Section;

namespace {

// A loop over layers, not over the head's parts.
bool is_block(const Section& section) {
  return section.name != "head";
}

}  // namespace

std::string section_comment(const std::string& function, std::string section) {
  std::erase_if(section, [](char c) { return '0' <= c && c <= '9'; });  // the loop's first layer
  if (section == "input" && function == "embed") return "Word, position and type of each token, normed.";
  if (section == "head" && function == "evaluate") return "Logits, and their loss.";
  if (section == "head" && function != "micro_step") return "The logits of the next token.";
  static const std::map<std::string, std::string> comments = {
      {"input", "The input's embedding, and the first layer's norm of it."},
      {"block", "One layer: attention, then the mlp. It ends with the norm that the next one begins with."},
      {"before_head", "What the head's parts add to begins at zero."},
      {"head", "Logits, their loss and its gradient, and the gradient of the head's matrix."},
      {"after_head",
       "The residual stream's gradient begins at zero: the loss reaches it through the last norm only."},
      {"encoder", "One layer: attention within each text, then the mlp, each with a norm behind its sum."},
      {"distances", "The embeddings of replies, and how far those of a set are apart."},
      {"block_backward", "The gradients of one layer, in the reverse order of its forward pass."},
      {"block_backward_ahead",
       "What the last layer left on the host comes back; each layer fetches what the one below it needs."},
      {"input_backward", "The gradients of the first norm and of the embeddings."},
      {"reduce",
       "What the ranks sum before they all make the same update; random numbers go on after all their "
       "micro-batches."},
      {"sum_partial",
       "Of what all ranks that share layers have, each computed terms of the gradients, of its tokens or "
       "heads."},
      {"reduce_gradients", "Of each gradient the sum over ranks of the part that this rank updates."},
      {"reduce_gradients_block", "Likewise, those of one layer."},
      {"reduce_rest",
       "The rank's part of what ranks divide together: vectors, and what belongs to no layer."},
      {"own_part", "What this rank updates of the parameters."},
      {"own_part_block", "Likewise, of one layer's."},
      {"gather", "The ranks give each other what they have updated."},
      {"gather_block", "Likewise, one layer's."},
      {"update", "Gradient norm, clipping, learning rate and optimizer, all on the device."},
      {"normalize", "Muon: the next matrices of all layers, divided by their norms."},
      {"newton_schulz", "A step of Newton-Schulz's iteration over these matrices."},
      {"apply_update", "What the orthogonal updates change."},
      {"largest_weights", "The largest number of each of a layer's matrices."},
      {"new_scales",
       "The scales of 8-bit tensors: of activations from 16 steps, of weights from their own numbers."},
      {"narrow_weights", "A layer's matrices of 8 bits, and as d_x = d_y W reads them."},
      {"load", "The copies that matmuls read, after parameters were loaded."},
  };
  const auto found = comments.find(section);
  return found == comments.end() ? "" : found->second;
}

CallText::CallText(const driver::Compiled& compiled, const codegen::Dimensions& dimensions,
                   const Tensors& tensors, const program::Function& function)
    : compiled_(compiled),
      dimensions_(dimensions),
      tensors_(tensors),
      function_(function),
      waits_(queue_waits(compiled, function)),
      on_cpu_(on_cpu(compiled)) {}

std::string run_parameter(const driver::Compiled& compiled) {
  return on_cpu(compiled) ? "const Run& run" : "Run& run";
}

std::string CallText::layer_of(const Section& section) const {
  return section.layers == 0 ? "" : is_block(section) ? "l" : "part";
}

std::string CallText::count_of(const Section& section) const {
  if (!is_block(section)) return "kHeadParts";
  if (section.name == "encoder") return "kTextLayers";
  const bool all_layers =
      section.name.starts_with("block") && section.layers == compiled_.spec.model.num_hidden_layers;
  return all_layers ? "L" : std::to_string(section.layers);
}

std::string CallText::statement(int index, const std::string& behind) const {
  const Section& section = function_.sections[static_cast<size_t>(index)];
  Writer out(1);
  const std::string l = layer_of(section), count = count_of(section);
  const bool once = section.layers == 0 || count == "1";
  const std::string layer = !names_layer(body_of(index), section) ? "" : once ? ", 0" : ", " + l;
  const std::string call = fmt::format("{}(m, run{});", codegen::identifier(section.name), layer);
  const std::string loop = section.reverse
                               ? fmt::format("for (int {0} = {1} - 1; {0} >= 0; --{0}) ", l, count)
                               : fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) ", l, count);
  if (once) {
    out.line(call);
    if (!behind.empty()) out.line(fmt::format(fmt::runtime(behind), "0"));
  } else if (behind.empty()) {
    out.line(loop + call);
  } else {
    out.open(loop + "{");
    out.line(call);
    out.line(fmt::format(fmt::runtime(behind), l));
    out.close();
  }
  return out.text();
}

std::string CallText::definition(int index) const {
  return definition(index, codegen::identifier(function_.sections[static_cast<size_t>(index)].name));
}

// On a GPU the profiler's range has it. On the cpu a layer without tensors of its own has no use for it.
bool CallText::names_layer(const Body& body, const Section& section) const {
  const auto names = [&](const std::string& statement) { return ir::has_word(statement, layer_of(section)); };
  return section.layers > 0 && (!on_cpu_ || std::ranges::any_of(body.statements, names));
}

CallText::Body CallText::body_of(int index) const {
  const Section& section = function_.sections[static_cast<size_t>(index)];
  Body result;
  Writer body(1);
  const auto add = [&](const std::string& statement) {
    body.line(statement);
    result.statements.push_back(statement);
  };
  for (size_t c = 0; c < section.calls.size(); ++c) {
    const Call& call = section.calls[c];
    const CallPosition here{index, static_cast<int>(c)};
    for (ir::Use use : call.arguments) {
      if (use != workspace_of_queue(call)) result.groups.insert(tensors_.group_of(use.value).variable);
    }
    result.queues.insert(queue(call));
    if (c > 0) body.line("");
    for (const std::string& line : call_comment(call)) body.line("// " + line);
    if (const auto found = waits_.waits.find(here); found != waits_.waits.end()) {
      for (const auto& [awaited, reason] : found->second) {
        body.line("// " + wait_comment(call, call_at(awaited), reason));
        add(fmt::format("{}.wait(run.{});", queue(call), mark(awaited, index)));
      }
    }
    add(call_text(section, call));
    if (const auto found = waits_.marks.find(here); found != waits_.marks.end())
      add(fmt::format("{}.mark(run.{});", queue(call), mark(here, index)));
  }
  result.text = body.text();
  return result;
}

std::string CallText::definition(int index, const std::string& name) const {
  const Section& section = function_.sections[static_cast<size_t>(index)];
  const Body body = body_of(index);
  const std::string layer = names_layer(body, section) ? ", int " + layer_of(section) : "";
  Writer out;
  if (const std::string comment = section_comment(function_.name, section.name); !comment.empty())
    out.line("// " + comment);
  out.open(fmt::format("void {}(const Memory& m, {}{}) {{", name, run_parameter(compiled_), layer));
  for (const Group& group : tensors_.groups()) {
    if (body.groups.contains(group.variable))
      out.line(fmt::format("const {}& {} = m.{};", group.type, group.variable, group.variable));
  }
  if (!on_cpu_) {
    for (const std::string& name : body.queues) out.line(fmt::format("const Queue& {0} = run.{0};", name));
  }
  if (!on_cpu_) {
    out.line(fmt::format("const nvtx3::scoped_range range{{nvtx3::message{{\"{}\"}}{}}};", name,
                         section.layers == 0 ? "" : ", nvtx3::payload{" + layer_of(section) + "}"));
  }
  out.line("");
  out.append(body.text);
  out.close();
  return out.text();
}

// The memory that a library's matmuls of a queue share, which is the queue's own.
ir::Use CallText::workspace_of_queue(const Call& call) const {
  const auto* gemm = std::get_if<program::Gemm>(&call.work);
  return gemm ? gemm->operands(call.arguments).workspace : ir::Use{};
}

// The name of the mark after a call, as code in section number `index` refers to it.
std::string CallText::mark(const CallPosition& behind, int index) const {
  const std::string& name = waits_.marks.at(behind);
  if (!waits_.by_turns.contains(behind)) return name;
  const Section& section = function_.sections[static_cast<size_t>(behind.first)];
  if (behind.first == index) return fmt::format("{}[{} % 2]", name, layer_of(section));
  return fmt::format("{}[{}]", name, section.reverse ? 0 : (section.layers - 1) % 2);  // the last one
}

// "It reads d_mlp_up." of what the awaited call makes, or which bytes are used again.
std::string CallText::wait_comment(const Call& call, const Call& awaited, const WaitReason& reason) const {
  const std::string own = tensors_.short_text(reason.own), other = tensors_.short_text(reason.other);
  const bool same = own == other;
  const auto* collective = std::get_if<program::Collective>(&call.work);
  if (same && collective && collective->in_place) return fmt::format("It sums {}.", own);
  if (!reason.own_writes)
    return same ? fmt::format("It reads {}.", own) : fmt::format("It reads {}, where {} lies.", own, other);
  const char* does = reason.other_writes ? "writes" : "reads";
  const std::string stream = fmt::format("the {} stream", replaced(queue(awaited), "_", "-"));
  return same ? fmt::format("It writes {}, which {} {}.", own, stream, does)
              : fmt::format("It writes {} over {}, which {} {}.", own, other, stream, does);
}

const Call& CallText::call_at(const CallPosition& position) const {
  return function_.sections[static_cast<size_t>(position.first)].calls[static_cast<size_t>(position.second)];
}

std::string CallText::queue(const Call& call) const {
  return on_cpu_ ? "run" : std::string(to_string(call.queue));
}

}  // namespace hydrac::emit
