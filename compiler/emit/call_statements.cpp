// A call as a statement, and the comment that stands above it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "emit/calls.h"
#include "emit/kernels/kernels.h"
#include "emit/sizes.h"

namespace hydrac::emit {

using program::Call;
using program::Section;

std::string CallText::elements(ir::Use use) const {
  return elements_text(dimensions_, compiled_.graph.value(use).shape);
}

std::string CallText::symbols(ir::Use use) const {
  return symbols_of(compiled_.graph.value(use).shape);
}

std::string CallText::call_text(const Section& section, const Call& call) const {
  const auto text = [&](ir::Use use) { return tensors_.text(use, layer_of(section)); };
  const program::Overloaded statement{
      [&](const program::Launch& work) { return launch(section, call, work); },
      [&](const program::Gemm& work) { return gemm(section, call, work); },
      [&](const program::Attention& work) { return attention(section, call, work); },
      [&](const program::Zero&) {
        const ir::Use tensor = call.arguments.at(0);
        return fmt::format("{}.zero({}, {});", queue(call), text(tensor), elements(tensor));
      },
      [&](const program::Copy& work) {
        const auto [from, to] = work.tensors(call.arguments);
        return fmt::format("{}.copy({}, {}, {});", queue(call), text(to), text(from), elements(from));
      },
      [&](const program::Collective& work) { return collective(section, call, work); }};
  return std::visit(statement, call.work);
}

namespace {

// "{Collective::all_gather, RankGroup::tensor}"
std::string text_of(const runtime::Collective& collective) {
  const bool is_sum = collective.reduction == runtime::Reduction::sum,
             is_data = collective.group == runtime::RankGroup::data;
  std::string text = fmt::format("Collective::{}", to_string(collective.kind));
  if (!is_sum || !is_data) text += fmt::format(", RankGroup::{}", is_data ? "data" : "tensor");
  if (!is_sum) text += ", Reduction::max";
  return "{" + text + "}";
}

}  // namespace

std::string CallText::collective(const Section& section, const Call& call,
                                 const program::Collective& work) const {
  std::vector<std::string> tensors;
  for (const auto& tensor : work.tensors(call.arguments)) {
    const std::string from = tensors_.text(tensor.from, layer_of(section)),
                      to = tensors_.text(tensor.to, layer_of(section));
    ir::Shape shape = compiled_.graph.value(work.part(tensor)).shape;
    std::string slots;
    if (work.has_slots()) {
      slots = ", " + size_text(dimensions_, shape[0]);
      shape.erase(shape.begin());
    }
    const std::string count = elements_text(dimensions_, shape) + slots;
    tensors.push_back(on_cpu_         ? fmt::format("{{{}, {}, {}}}", from, to, count)
                      : work.in_place ? fmt::format("elements({}, {})", to, count)
                                      : fmt::format("elements({}, {}, {})", from, to, count));
  }
  if (on_cpu_) return fmt::format("run.collective({}, {{{}}});", text_of(work), fmt::join(tensors, ", "));
  return fmt::format("run.ranks.run({}, {{{}}}, {}.cuda_stream());", text_of(work), fmt::join(tensors, ", "),
                     queue(call));
}

std::string CallText::launch(const Section& section, const Call& call, const program::Launch& work) const {
  const program::Kernel& kernel = compiled_.program.kernels[static_cast<size_t>(work.kernel)];
  std::vector<std::string> arguments;
  for (ir::Use use : call.arguments) arguments.push_back(tensors_.text(use, layer_of(section)));
  if (kernel.takes_layer) {
    std::string layer = section.layers == 0 ? "0" : layer_of(section);
    if (section.first_layer > 0) layer += fmt::format(" + {}", section.first_layer);
    arguments.push_back(layer);
  }
  if (takes_rows(compiled_.program, work.kernel)) arguments.push_back(work.grid.rows);
  if (on_cpu_)
    arguments.insert(arguments.begin(), kernel.name);
  else
    arguments.push_back(queue(call) + ".stream()");
  return fmt::format("{}({});", on_cpu_ ? "run" : kernel.name, fmt::join(arguments, ", "));
}

// When C is added to: always, never, or not in the first iteration.
std::string CallText::accumulation(const Section& section, const program::GemmShape& shape) const {
  if (!shape.accumulate) return "";
  if (!shape.first_overwrites) return "true";
  const std::string l = layer_of(section);
  return section.reverse ? fmt::format("{} < {} - 1", l, count_of(section)) : l + " > 0";
}

std::string CallText::gemm(const Section& section, const Call& call, const program::Gemm& work) const {
  const program::GemmShape& g = work.shape;
  const auto operands = work.operands(call.arguments);
  const auto text = [&](ir::Use use) { return tensors_.text(use, layer_of(section)); };
  const MatmulText matmul = matmul_text(compiled_.graph, dimensions_, call);
  std::vector<std::string> options;
  if (g.bias) options.push_back(".bias = " + text(operands.bias));
  if (const std::string adds = accumulation(section, g); !adds.empty())
    options.push_back(".accumulate = " + adds);
  if (g.groups > 0)
    options.push_back(fmt::format(".groups = {{{}, {}{}}}", g.groups, text(operands.offsets),
                                  g.row_by_row ? ", true" : ""));
  if (g.batch > 1) options.push_back(fmt::format(".batch = {}", g.batch));
  if (g.is_f8()) {
    options.push_back(".a_scale = " + text(operands.a_scale));
    options.push_back(".b_scale = " + text(operands.b_scale));
    if (g.fast_sums) options.push_back(".fast_sums = true");
  }
  return fmt::format("{}.gemm_{}({}, {}, {}, {}, {}, {}{});", queue(call), matmul.name, text(operands.c),
                     text(operands.a), text(operands.b), matmul.m, matmul.n, matmul.k,
                     options.empty() ? "" : fmt::format(", {{{}}}", fmt::join(options, ", ")));
}

std::string CallText::attention(const Section& section, const Call& call,
                                const program::Attention& work) const {
  std::vector<std::string> arguments;
  for (ir::Use use : call.arguments) arguments.push_back(tensors_.text(use, layer_of(section)));
  const auto t = work.tensors(arguments);
  const std::string pointers =
      work.shape.backward ? fmt::format("BackwardPointers{{{}, {}, {}, {}, {}, {}, {}, {}, {}}}", t.q, t.k,
                                        t.v, t.out, t.d_out, t.lse, t.d_q, t.d_k, t.d_v)
                          : fmt::format("ForwardPointers{{{}, {}, {}, {}, {}}}", t.q, t.k, t.v, t.out, t.lse);
  return fmt::format("run.cudnn.run(run.{}, {}, {}, {}.cuda_stream());",
                     attention_name(compiled_, work.shape), pointers, t.workspace, queue(call));
}

std::vector<std::string> CallText::call_comment(const Call& call) const {
  if (const auto* gemm = std::get_if<program::Gemm>(&call.work)) return {gemm_comment(call, *gemm)};
  const auto* launch = std::get_if<program::Launch>(&call.work);
  if (!launch) return {};
  return launch->matmul ? matmul_comment(call, *launch) : weight_gradients_comment(call, *launch);
}

// "attn_qkv = normed · attn_qkv_weightᵀ + attn_qkv_bias    [B,T,C] x [3HD,C]ᵀ -> [B,T,3HD]"
std::string CallText::gemm_comment(const Call& call, const program::Gemm& gemm) const {
  const program::GemmShape& g = gemm.shape;
  const auto operands = gemm.operands(call.arguments);
  const auto mark = [](bool transposed) { return transposed ? "ᵀ" : ""; };
  return fmt::format("{} {} {}{} · {}{}{}    {}{} x {}{} -> {}{}", tensors_.short_text(operands.c),
                     g.accumulate ? "+=" : "=", tensors_.short_text(operands.a), mark(g.transpose_a),
                     tensors_.short_text(operands.b), mark(g.transpose_b),
                     g.bias ? " + " + tensors_.short_text(operands.bias) : "", symbols(operands.a),
                     mark(g.transpose_a), symbols(operands.b), mark(g.transpose_b), symbols(operands.c),
                     g.groups > 0 ? fmt::format(", in {} groups of rows", g.groups) : "");
}

// "matmul = mlp_normed · mlp_up_weightᵀ    [B,T,C] x [F,C]ᵀ", its tail's matrices behind a plus, then the
// rest of the kernel's formula.
std::vector<std::string> CallText::matmul_comment(const Call& call, const program::Launch& launch) const {
  const std::string& comment = compiled_.program.kernels[static_cast<size_t>(launch.kernel)].comment;
  const ir::Use a = call.arguments.at(0), b = call.arguments.at(1);
  const char* transposed = launch.matmul->transpose_b ? "ᵀ" : "";
  std::vector<std::string> lines;
  std::istringstream text(comment);
  for (std::string line; std::getline(text, line) && !line.starts_with("Rows ");) lines.push_back(line);
  const bool has_tail = compiled_.program.kernels[static_cast<size_t>(launch.kernel)].maps.size() > 2;
  const auto product = [&](size_t first) {
    return fmt::format("{} · {}{}", tensors_.short_text(call.arguments.at(first)),
                       tensors_.short_text(call.arguments.at(first + 1)), transposed);
  };
  lines[0] = fmt::format("{} = {}{}    {} x {}{}", lines[0].substr(0, lines[0].find(" = ")), product(0),
                         has_tail ? " + " + product(2) : "", symbols(a), symbols(b), transposed);
  return lines;
}

// "mlp_up_weight = d_mlp_upᵀ · mlp_normed    [B,T,F]ᵀ x [B,T,C] -> [F,C]" for each of them.
std::vector<std::string> CallText::weight_gradients_comment(const Call& call,
                                                            const program::Launch& launch) const {
  const program::Kernel& kernel = compiled_.program.kernels[static_cast<size_t>(launch.kernel)];
  const char* sign = kernel.comment.find("+=") == std::string::npos ? "=" : "+=";
  std::vector<std::string> lines;
  for (size_t i = 0; i < kernel.maps.size(); i += 2) {
    const ir::Use a = call.arguments[i], b = call.arguments[i + 1],
                  c = call.arguments[kernel.maps.size() + i / 2];
    lines.push_back(fmt::format("{} {} {}ᵀ · {}    {}ᵀ x {} -> {}", tensors_.short_text(c), sign,
                                tensors_.short_text(a), tensors_.short_text(b), symbols(a), symbols(b),
                                symbols(c)));
  }
  return lines;
}

}  // namespace hydrac::emit
