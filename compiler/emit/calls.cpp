#include "emit/calls.h"
#include "emit/sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>

#include "codegen/operand_names.h"
#include "codegen/writer.h"
#include "emit/functions.h"
#include "emit/kernels.h"
#include "emit/on_cpu.h"
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
  if (section == "head" && function == "evaluate") return "Logits, and their loss.";
  if (section == "head" && function != "micro_step") return "The logits of the next token.";
  static const std::map<std::string, std::string> comments = {
      {"input", "The input's embedding, and the first layer's norm of it."},
      {"block", "One layer: attention, then the mlp. It ends with the norm that the next one begins with."},
      {"before_head", "What the head's parts add to begins at zero."},
      {"head", "Logits, their loss and its gradient, and the gradient of the head's matrix."},
      {"after_head",
       "The residual stream's gradient begins at zero: the loss reaches it through the last norm only."},
      {"block_backward", "The gradients of one layer, in the reverse order of its forward pass."},
      {"block_backward_ahead",
       "What the last layer left on the host comes back; each layer fetches what the one below it needs."},
      {"input_backward", "The gradients of the first norm and of the embeddings."},
      {"reduce",
       "What the ranks sum before they all make the same update; random numbers go on after all their "
       "micro-batches."},
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
      waits_(branch_waits(compiled, function)),
      on_cpu_(on_cpu(compiled)) {}

std::string run_parameter(const driver::Compiled& compiled) {
  return on_cpu(compiled) ? "const Run& run" : "Run& run";
}

std::string CallText::layer_of(const Section& section) const {
  return section.layers == 0 ? "" : is_block(section) ? "l" : "part";
}

std::string CallText::count_of(const Section& section) const {
  if (!is_block(section)) return "kHeadParts";
  const bool all_layers =
      section.name.starts_with("block") && section.layers == compiled_.spec.model.num_hidden_layers;
  return all_layers ? "L" : std::to_string(section.layers);
}

std::string CallText::arguments(const Section& section) const {
  std::string list = "m, run";
  if (section.layers > 0) list += ", " + layer_of(section);
  return list;
}

std::string CallText::statement(int index) const {
  const Section& section = function_.sections[static_cast<size_t>(index)];
  codegen::Writer out(1);
  const std::string call = fmt::format("{}({});", codegen::identifier(section.name), arguments(section));
  if (section.layers == 0) {
    out.line(call);
  } else if (count_of(section) == "1") {
    out.line(fmt::format("{}(m, run, 0);", codegen::identifier(section.name)));
  } else {
    const std::string l = layer_of(section), count = count_of(section);
    out.line(section.reverse ? fmt::format("for (int {0} = {1} - 1; {0} >= 0; --{0}) {2}", l, count, call)
                             : fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {2}", l, count, call));
  }
  return out.text();
}

std::string CallText::definition(int index) const {
  const Section& section = function_.sections[static_cast<size_t>(index)];
  return definition(index, codegen::identifier(section.name),
                    section.layers == 0 ? "" : ", int " + layer_of(section));
}

std::string CallText::definition(int index, const std::string& name) const {
  return definition(index, name, "");
}

std::string CallText::definition(int index, const std::string& name, const std::string& layer) const {
  const Section& section = function_.sections[static_cast<size_t>(index)];
  std::set<std::string> groups, branches;
  codegen::Writer body(1);
  for (size_t c = 0; c < section.calls.size(); ++c) {
    const Call& call = section.calls[c];
    const CallPosition here{index, static_cast<int>(c)};
    for (ir::Use use : call.arguments) {
      if (!on_cpu_ && call.kind == Call::Kind::gemm && use == call.arguments[3]) continue;  // the queue's own
      groups.insert(tensors_.group_of(use.value).variable);
    }
    branches.insert(queue(call));
    if (c > 0) body.line("");
    if (call.kind == Call::Kind::gemm) body.line("// " + gemm_comment(call));
    if (is_matmul(call)) {
      for (const std::string& line : matmul_comment(call)) body.line("// " + line);
    }
    for (const std::string& line : weight_gradients_comment(call)) body.line("// " + line);
    if (const auto found = waits_.waits.find(here); found != waits_.waits.end()) {
      for (const auto& [awaited, reason] : found->second) {
        body.line("// " + wait_comment(call, call_at(awaited), reason));
        body.line(fmt::format("{}.wait(run.{});", queue(call), mark(awaited, index)));
      }
    }
    body.line(call_text(section, call));
    if (const auto found = waits_.marks.find(here); found != waits_.marks.end())
      body.line(fmt::format("{}.mark(run.{});", queue(call), mark(here, index)));
  }
  codegen::Writer out;
  if (const std::string comment = section_comment(function_.name, section.name); !comment.empty())
    out.line("// " + comment);
  out.open(fmt::format("void {}(const Memory& m, {}{}) {{", name, run_parameter(compiled_), layer));
  for (const Group& group : tensors_.groups()) {
    if (groups.contains(group.variable))
      out.line(fmt::format("const {}& {} = m.{};", group.type, group.variable, group.variable));
  }
  if (!on_cpu_) {
    for (const std::string& branch : branches)
      out.line(fmt::format("const Queue& {} = run.{};", branch, branch));
  }
  if (!on_cpu_) {
    out.line(fmt::format("const nvtx3::scoped_range range{{nvtx3::message{{\"{}\"}}{}}};", name,
                         section.layers == 0 ? "" : ", nvtx3::payload{" + layer_of(section) + "}"));
  }
  out.line("");
  out.append(body.text());
  out.close();
  return out.text();
}

// The point behind a call, as section number `index` names it.
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
  if (same && call.kind == Call::Kind::all_reduce) return fmt::format("It sums {}.", own);
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
  return on_cpu_ ? "run" : std::string(branch_name(call.branch));
}

std::string CallText::call_text(const Section& section, const Call& call) const {
  switch (call.kind) {
    case Call::Kind::launch:
      return launch(section, call);
    case Call::Kind::gemm:
      return gemm(section, call);
    case Call::Kind::attention:
      return attention(section, call);
    case Call::Kind::zero:
      return fmt::format("{}.zero({}, {});", queue(call), tensors_.text(call.arguments[0], layer_of(section)),
                         elements_text(dimensions_, compiled_.graph.value(call.arguments[0]).shape));
    case Call::Kind::all_reduce:
      return all_reduce(section, call);
    case Call::Kind::copy:
      return fmt::format("{}.copy({}, {}, {});", queue(call),
                         tensors_.text(call.arguments[1], layer_of(section)),
                         tensors_.text(call.arguments[0], layer_of(section)),
                         elements_text(dimensions_, compiled_.graph.value(call.arguments[0]).shape));
    case Call::Kind::reduce_scatter:
    case Call::Kind::all_gather:
    case Call::Kind::own_part:
      return with_parts(section, call);
    case Call::Kind::sum_over_ranks:
      break;  // of ranks that share layers, whose programs are not emitted
  }
  throw std::logic_error("no such kind of call");
}

std::string CallText::all_reduce(const Section& section, const Call& call) const {
  std::vector<std::string> tensors;
  for (const ir::Use use : call.arguments)
    tensors.push_back(fmt::format(fmt::runtime(on_cpu_ ? "{{{}, {}}}" : "elements({}, {})"),
                                  tensors_.text(use, layer_of(section)),
                                  elements_text(dimensions_, compiled_.graph.value(use).shape)));
  if (on_cpu_) return fmt::format("run.all_reduce({{{}}});", fmt::join(tensors, ", "));
  return fmt::format("run.ranks.all_reduce({{{}}}, Reduction::{}, {}.cuda_stream());",
                     fmt::join(tensors, ", "), call.largest ? "max" : "sum", queue(call));
}

std::string CallText::with_parts(const Section& section, const Call& call) const {
  std::vector<std::string> tensors;
  for (const auto& [whole, part] : shared_tensors(call))
    tensors.push_back(fmt::format(fmt::runtime(on_cpu_ ? "{{{}, {}, {}}}" : "shared_elements({}, {}, {})"),
                                  tensors_.text(whole, layer_of(section)),
                                  tensors_.text(part, layer_of(section)),
                                  elements_text(dimensions_, compiled_.graph.value(part).shape)));
  const std::string name = name_of(compiled_.program, call);
  if (on_cpu_) return fmt::format("run.{}({{{}}});", name, fmt::join(tensors, ", "));
  return fmt::format("run.ranks.{}({{{}}}, {}.cuda_stream());", name, fmt::join(tensors, ", "), queue(call));
}

std::string CallText::launch(const Section& section, const Call& call) const {
  const program::Kernel& kernel = compiled_.program.kernels[static_cast<size_t>(call.kernel)];
  std::vector<std::string> arguments;
  for (ir::Use use : call.arguments) arguments.push_back(tensors_.text(use, layer_of(section)));
  if (kernel.takes_layer) {
    std::string layer = section.layers == 0 ? "0" : layer_of(section);
    if (section.first_layer > 0) layer += fmt::format(" + {}", section.first_layer);
    arguments.push_back(layer);
  }
  if (takes_rows(compiled_.program, call.kernel)) arguments.push_back(call.grid.rows);
  if (on_cpu_)
    arguments.insert(arguments.begin(), kernel.name);
  else
    arguments.push_back(queue(call) + ".stream()");
  return fmt::format("{}({});", on_cpu_ ? "run" : kernel.name, fmt::join(arguments, ", "));
}

// Whether C is added to: always, never, or not in the first iteration.
std::string CallText::accumulation(const Section& section, const Call& call) const {
  if (!call.gemm.accumulate) return "";
  if (!call.gemm.first_overwrites) return "true";
  const std::string l = layer_of(section);
  return section.reverse ? fmt::format("{} < {} - 1", l, count_of(section)) : l + " > 0";
}

std::string CallText::gemm(const Section& section, const Call& call) const {
  const program::GemmShape& g = call.gemm;
  const std::string layer = layer_of(section);
  const MatmulText text = matmul_text(compiled_.graph, dimensions_, call);
  std::vector<std::string> options;
  if (g.bias) options.push_back(".bias = " + tensors_.text(call.arguments[4], layer));
  if (const std::string adds = accumulation(section, call); !adds.empty())
    options.push_back(".accumulate = " + adds);
  if (g.batch > 1) options.push_back(fmt::format(".batch = {}", g.batch));
  if (g.is_f8()) {
    options.push_back(".a_scale = " + tensors_.text(*(call.arguments.end() - 2), layer));
    options.push_back(".b_scale = " + tensors_.text(call.arguments.back(), layer));
    if (g.fast_sums) options.push_back(".fast_sums = true");
  }
  return fmt::format("{}.gemm_{}({}, {}, {}, {}, {}, {}{});", queue(call), text.name,
                     tensors_.text(call.arguments[2], layer), tensors_.text(call.arguments[0], layer),
                     tensors_.text(call.arguments[1], layer), text.m, text.n, text.k,
                     options.empty() ? "" : fmt::format(", {{{}}}", fmt::join(options, ", ")));
}

// "attn_qkv = normed · attn_qkv_weightᵀ + attn_qkv_bias    [B,T,C] x [3HD,C]ᵀ -> [B,T,3HD]"
std::string CallText::gemm_comment(const Call& call) const {
  auto name = [&](int argument, bool transposed) {
    return tensors_.short_text(call.arguments[static_cast<size_t>(argument)]) + (transposed ? "ᵀ" : "");
  };
  auto shape = [&](int argument, bool transposed) {
    return symbols_of(compiled_.graph.value(call.arguments[static_cast<size_t>(argument)]).shape) +
           (transposed ? "ᵀ" : "");
  };
  const program::GemmShape& g = call.gemm;
  return fmt::format("{} {} {} · {}{}    {} x {} -> {}", name(2, false), g.accumulate ? "+=" : "=",
                     name(0, g.transpose_a), name(1, g.transpose_b), g.bias ? " + " + name(4, false) : "",
                     shape(0, g.transpose_a), shape(1, g.transpose_b), shape(2, false));
}

bool CallText::is_matmul(const Call& call) const {
  return call.kind == Call::Kind::launch && call.multiplies_one_matmul();
}

// "matmul = mlp_normed · mlp_up_weightᵀ    [B,T,C] x [F,C]ᵀ", then the rest of the kernel's formula.
std::vector<std::string> CallText::matmul_comment(const Call& call) const {
  const std::string& comment = compiled_.program.kernels[static_cast<size_t>(call.kernel)].comment;
  const auto name = [&](int argument) {
    return tensors_.short_text(call.arguments[static_cast<size_t>(argument)]);
  };
  const auto shape = [&](int argument) {
    return symbols_of(compiled_.graph.value(call.arguments[static_cast<size_t>(argument)]).shape);
  };
  const char* transposed = call.gemm.transpose_b ? "ᵀ" : "";
  std::vector<std::string> lines;
  std::istringstream text(comment);
  for (std::string line; std::getline(text, line) && !line.starts_with("Rows ");) lines.push_back(line);
  lines[0] = fmt::format("{} = {} · {}{}    {} x {}{}", lines[0].substr(0, lines[0].find(" = ")), name(0),
                         name(1), transposed, shape(0), shape(1), transposed);
  return lines;
}

// "mlp_up_weight = d_mlp_upᵀ · mlp_normed    [B,T,F]ᵀ x [B,T,C] -> [F,C]" for each of them.
std::vector<std::string> CallText::weight_gradients_comment(const Call& call) const {
  if (call.kind != Call::Kind::launch || call.multiplies_one_matmul()) return {};
  const program::Kernel& kernel = compiled_.program.kernels[static_cast<size_t>(call.kernel)];
  const auto name = [&](size_t argument) { return tensors_.short_text(call.arguments[argument]); };
  const auto shape = [&](size_t argument) {
    return symbols_of(compiled_.graph.value(call.arguments[argument]).shape);
  };
  const char* sign = kernel.comment.find("+=") == std::string::npos ? "=" : "+=";
  std::vector<std::string> lines;
  for (size_t i = 0; i < kernel.maps.size(); i += 2) {
    const size_t result = kernel.maps.size() + i / 2;
    lines.push_back(fmt::format("{} {} {}ᵀ · {}    {}ᵀ x {} -> {}", name(result), sign, name(i), name(i + 1),
                                shape(i), shape(i + 1), shape(result)));
  }
  return lines;
}

std::string CallText::attention(const Section& section, const Call& call) const {
  std::vector<std::string> arguments;
  for (ir::Use use : call.arguments) arguments.push_back(tensors_.text(use, layer_of(section)));
  const std::string workspace = arguments.back();
  arguments.pop_back();
  if (call.attention.backward) {  // from the call's order to that of BackwardPointers
    const std::vector<std::string> a = arguments;
    arguments = {a[3], a[4], a[5], a[1], a[0], a[2], a[6], a[7], a[8]};
  }
  return fmt::format("run.cudnn.run(run.{}, {}Pointers{{{}}}, {}, {}.cuda_stream());",
                     attention_name(compiled_, call.attention),
                     call.attention.backward ? "Backward" : "Forward", fmt::join(arguments, ", "), workspace,
                     queue(call));
}

}  // namespace hydrac::emit
