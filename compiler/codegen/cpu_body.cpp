#include "codegen/cpu_body.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "codegen/cpu_body_printer.h"
#include "codegen/kernel_table.h"
#include "codegen/parameter_list.h"
#include "ir/words.h"

namespace hydrac::codegen {

using ir::Affine;
using ir::Expr;
using ir::ExprId;
using ir::ExprOp;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;

KernelSource CpuBodyPrinter::print() {
  KernelSource source;
  columns_outside_ = sums_over_few_rows();
  source.comment = comment();
  source.workspace_bytes = columns_outside_ || sums_.empty() ? 0 : blocks() * sum_width_ * 4;
  const std::string head = fmt::format("static void {}{}", kNamePlaceholder, parameters(source));
  out_ = Writer(1);
  print_uniform();
  if (columns_outside_) {
    print_columns_outside();
  } else if (!sums_.empty()) {
    print_row_blocks();
  } else {
    print_rows();
  }
  const std::string body = out_.text();
  out_ = Writer(1);
  print_constants(body);
  source.text = head + out_.text() + body + "}\n";
  return source;
}

void CpuBodyPrinter::print_constants(const std::string& body) {
  if (ir::has_word(body, "kBlocks"))
    out_.line(
        fmt::format("constexpr int kBlocks = {};  // of rows, whatever the number of threads", blocks()));
  if (ir::has_word(body, "kSums"))
    out_.line(fmt::format("constexpr std::int64_t kSums = {};  // of a block", sums_size().text));
  for (const std::string& constant : named_constants()) out_.line(constant);
}

void CpuBodyPrinter::define(ExprId id) {
  const std::string definition = text_.definition(id);
  names_[id] = unique(wanted_name(id));
  // A condition on a bool, of one byte, keeps g++ from vectorizing a loop over codes of one byte and floats.
  const bool has_codes = std::ranges::any_of(
      body_.operands, [](const ir::Operand& operand) { return operand.dtype == ir::DType::u8; });
  const bool is_wide = deps_[id].uniform && body_.exprs[id].type == ir::ExprType::boolean && has_codes;
  out_.line(fmt::format("const {} {} = {};", is_wide ? "std::int32_t" : c_type(body_.exprs[id].type),
                        names_[id], definition));
}

std::string CpuBodyPrinter::element(int operand, const ir::Index& index) {
  const Address at = address(operand, index, text_);
  std::string inside = at.gathered;
  const std::string columns = at.columns == Affine{} ? "" : affine(operand, at.columns);
  auto append = [&](const std::string& more) {
    if (!more.empty()) inside += (inside.empty() ? "" : " + ") + more;
  };
  const std::string rows = rows_text(operand, at.rows);
  if (!columns_outside_ && !rows.empty() && at.gathered.empty() && !at.columns.terms.empty()) {
    append(columns);
    return fmt::format("{}[{}]", row_pointer(operand, rows), inside);
  }
  append(rows);
  append(columns);
  return fmt::format("{}[{}]", operand_names_[operand], inside.empty() ? "0" : inside);
}

std::string CpuBodyPrinter::stored_text(const Store& store) const {
  const std::string text = text_.of(store.value);
  const ir::DType dtype = body_.operands[store.operand].dtype;
  return dtype == ir::DType::u8 ? fmt::format("static_cast<{}>({})", c_type(dtype), text) : text;
}

std::string CpuBodyPrinter::row_pointer(int operand, const std::string& rows) {
  auto [found, is_new] = row_pointers_.try_emplace({operand, rows});
  if (is_new) found->second = unique(operand_names_[operand] + "_row");
  return found->second;
}

std::string CpuBodyPrinter::load_text(const Expr& expr) const {
  return const_cast<CpuBodyPrinter*>(this)->element(expr.operand, expr.index);
}

std::string CpuBodyPrinter::parameters(KernelSource& source) {
  ParameterList list;
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    if (operand_names_[o].empty() || !is_used(static_cast<int>(o))) continue;
    const ir::Operand& operand = body_.operands[o];
    const bool is_written = operand.output >= 0;
    list.add(fmt::format("{}{}* {}", is_written ? "" : "const ", c_type(operand.dtype), operand_names_[o]),
             operand.shape);
    source.arguments.push_back(use_of(static_cast<int>(o)));
    source.parameters.push_back(operand_names_[o]);
  }
  if (source.workspace_bytes > 0)
    list.add("float* workspace", {{blocks(), ""}, {sum_width_, sum_width_ == 1 ? "1" : "kSums"}});
  for (size_t i = 0; i < body_.exprs.size(); ++i)
    source.takes_layer |= live_[i] && body_.exprs[i].op == ExprOp::layer;
  if (source.takes_layer) list.add("int layer");
  return list.text();
}

bool CpuBodyPrinter::is_small() const {
  int64_t columns = 1;
  for (size_t s = 0; s < body_.spaces.size(); ++s)
    columns = std::max(columns, element_count(body_.space_shape(static_cast<int>(s))));
  return body_.row_count() * columns < 8192;
}

int64_t CpuBodyPrinter::blocks() const {
  return std::min<int64_t>(kRowBlocks, body_.row_count());
}

bool CpuBodyPrinter::sums_over_few_rows() const {
  return sums_.size() == body_.stores.size() && !sums_.empty() && stages_.size() == 1 &&
         std::ranges::all_of(sums_, [&](int s) {
           return body_.stores[s].space != kRowSpace && body_.spaces[body_.stores[s].space].size() == 2;
         });
}

void CpuBodyPrinter::print_uniform() {
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    if (live_[i] && deps_[i].uniform && deserves_name(static_cast<ExprId>(i))) define(static_cast<ExprId>(i));
  }
}

void CpuBodyPrinter::print_rows() {
  const Size rows = rows_size();
  if (rows.value > 1) {
    if (!is_small()) out_.line("#pragma omp parallel for schedule(static)");
    out_.open(fmt::format("for (std::int64_t r = 0; r < {}; ++r) {{", rows.text));
    print_row();
    out_.close();
    return;
  }
  Writer outside = std::move(out_);
  out_ = Writer(outside.indent());
  print_row();
  const std::string row = out_.text();
  out_ = std::move(outside);
  if (ir::has_word(row, "r")) out_.line("constexpr std::int64_t r = 0;  // the only row");
  out_.append(row);
}

void CpuBodyPrinter::print_row_blocks() {
  const Size rows = rows_size();
  if (!is_small()) out_.line("#pragma omp parallel for schedule(static)");
  out_.open("for (std::int64_t block = 0; block < kBlocks; ++block) {");
  out_.line(fmt::format("float* sums = workspace + block{};", sum_width_ == 1 ? "" : " * kSums"));
  out_.line(sum_width_ == 1 ? "sums[0] = 0.0f;" : "std::fill_n(sums, kSums, 0.0f);");
  if (rows.value == blocks()) {
    // Without a loop: g++ unrolls one of a single turn before it vectorizes, and sums the loops inside one
    // by one.
    out_.open("{");
    out_.line("const std::int64_t r = block;");
  } else {
    out_.open(
        fmt::format("for (std::int64_t r = block * {0} / kBlocks; r < (block + 1) * {0} / kBlocks; ++r) {{",
                    as_factor(rows)));
  }
  print_row();
  out_.close();
  out_.close();
  out_.line("");
  out_.line("// The blocks' sums, in order.");
  for (int s : sums_) print_final_sum(body_.stores[s]);
}

void CpuBodyPrinter::print_final_sum(const Store& store) {
  const int64_t elements = sum_elements(store);
  const std::string at = sum_offset(store) == 0 ? "" : " + " + sum_offset_size(store).text;
  const std::string block = sum_width_ == 1 ? "block" : "block * kSums";
  const char* assign = store.kind == StoreKind::add_column_sum ? "+=" : "=";
  if (elements == 1) {
    out_.open("{");
    out_.line("float total = 0.0f;");
    out_.line(fmt::format("for (std::int64_t block = 0; block < kBlocks; ++block) total += workspace[{}{}];",
                          block, at));
    const std::vector<std::string> saved = variables_;
    if (store.space != kRowSpace) {
      for (int v : body_.spaces[store.space]) variables_[v] = "0";
    }
    out_.line(fmt::format("{} {} total;", element(store.operand, store.index), assign));
    variables_ = saved;
    out_.close();
    return;
  }
  const std::vector<int>& space = body_.spaces[store.space];
  if (space.size() != 1) throw std::logic_error("a column sum over several column dimensions needs few rows");
  if (elements * blocks() > 65536)
    out_.line("#pragma omp parallel for simd schedule(static)");
  else
    out_.line("#pragma omp simd");
  // The column sums' index is the bare columns, so the flat column number finds the element.
  const std::string& column = variables_[space[0]];
  out_.open(
      fmt::format("for (std::int64_t {0} = 0; {0} < {1}; ++{0}) {{", column, width_of(store.space).text));
  out_.line("float total = 0.0f;");
  out_.line(
      fmt::format("for (std::int64_t block = 0; block < kBlocks; ++block) total += workspace[{}{} + {}];",
                  block, at, column));
  out_.line(fmt::format("{} {} total;", element(store.operand, store.index), assign));
  out_.close();
}

void CpuBodyPrinter::print_columns_outside() {
  for (int s : sums_) {
    const Store& store = body_.stores[s];
    const std::vector<int>& space = body_.spaces[store.space];
    const std::string outer = dimensions_.of(body_.variables[space[0]]).text;
    const std::string inner = dimensions_.of(body_.variables[space[1]]).text;
    out_.line("#pragma omp parallel for schedule(static)");
    out_.open(fmt::format("for (std::int64_t {0} = 0; {0} < {1}; ++{0}) {{", variables_[space[0]], outer));
    out_.line("#pragma omp simd");
    out_.open(fmt::format("for (std::int64_t {0} = 0; {0} < {1}; ++{0}) {{", variables_[space[1]], inner));
    out_.line("float total = 0.0f;");
    out_.open(fmt::format("for (std::int64_t r = 0; r < {}; ++r) {{", rows_size().text));
    out_.line(fmt::format("total += {};", text_.of(store.value)));
    out_.close();
    out_.line(fmt::format("{} {} total;", element(store.operand, store.index),
                          store.kind == StoreKind::add_column_sum ? "+=" : "="));
    out_.close();
    out_.close();
  }
}

void CpuBodyPrinter::print_row() {
  Writer outside = std::move(out_);
  out_ = Writer(outside.indent());
  plan_reuse();
  for (size_t level = 0; level < stages_.size(); ++level) {
    print_row_values(static_cast<int>(level));
    for (const Loop& loop : stages_[level].loops) print_loop(loop, static_cast<int>(level));
    for (int s : stages_[level].row_stores) print_row_store(body_.stores[s]);
  }
  const std::string row = out_.text();
  Writer pointers(outside.indent());
  for (const auto& [key, name] : row_pointers_) {
    const ir::Operand& operand = body_.operands[key.first];
    pointers.line(fmt::format("{}{}* {} = {} + {};", operand.output >= 0 ? "" : "const ",
                              c_type(operand.dtype), name, operand_names_[key.first], key.second));
  }
  out_ = std::move(outside);
  print_row_variables(pointers.text() + row);
  out_.append(pointers.text() + row);
}

void CpuBodyPrinter::print_row_variables(const std::string& named_by) {
  if (!needs_row_variables_) return;
  for (int v = body_.row_variables; v-- > 0;) {
    if (!ir::has_word(named_by, variables_[v])) continue;
    const Size below = rows_below(v);
    std::string value = below.value == 1 ? "r" : fmt::format("r / {}", parenthesized(below.text));
    if (v > 0) value += fmt::format(" % {}", parenthesized(dimensions_.of(body_.variables[v]).text));
    out_.line(fmt::format("const std::int64_t {} = {};", variables_[v], value));
  }
}

void CpuBodyPrinter::print_row_values(int level) {
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const ir::Dependence& dep = deps_[i];
    if (!live_[i] || dep.space != kRowSpace || dep.uniform || dep.level != level) continue;
    if (is_reduction(body_.exprs[i].op) || !deserves_name(static_cast<ExprId>(i)) || !names_[i].empty())
      continue;
    define(static_cast<ExprId>(i));
  }
}

void CpuBodyPrinter::print_row_store(const Store& store) {
  if (store.kind == StoreKind::store) {
    out_.line(fmt::format("{} = {};", element(store.operand, store.index), stored_text(store)));
    return;
  }
  out_.line(fmt::format("sums[{}] += {};", sum_offset_size(store).text, text_.of(store.value)));
}

KernelSource cpu_kernel(const ir::Graph& graph, const ir::Node& fused) {
  KernelSource source = CpuBodyPrinter(graph, fused).print();
  source.name = kernel_name(std::get<std::string>(fused.attributes.at("name")));
  return source;
}

}  // namespace hydrac::codegen
