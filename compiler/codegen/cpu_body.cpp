#include "codegen/cpu_body.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "codegen/cpu_body_printer.h"

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
  source.comment = extents_comment();
  source.workspace_bytes = columns_outside_ || sums_.empty() ? 0 : blocks() * sum_width_ * 4;
  out_.open(fmt::format("static void {}({}) {{", kNamePlaceholder, parameters(source)));
  print_uniform();
  if (columns_outside_) {
    print_columns_outside();
  } else if (!sums_.empty()) {
    print_row_blocks();
  } else {
    print_rows();
  }
  out_.close();
  source.text = out_.text();
  return source;
}

void CpuBodyPrinter::define(ExprId id) {
  const std::string definition = text_.definition(id);
  names_[id] = unique(wanted_name(id));
  out_.line(fmt::format("const {} {} = {};", c_type(body_.exprs[id].type), names_[id], definition));
}

std::string CpuBodyPrinter::element(int operand, const ir::Index& index) {
  const Address at = address(operand, index, text_);
  std::string inside = at.gathered;
  const std::string columns = at.columns == Affine{} ? "" : affine_text(at.columns, variables_);
  auto append = [&](const std::string& more) {
    if (!more.empty()) inside += (inside.empty() ? "" : " + ") + more;
  };
  const std::string rows = rows_text(at.rows);
  if (!columns_outside_ && !rows.empty() && at.gathered.empty() && !at.columns.terms.empty()) {
    append(columns);
    return fmt::format("{}[{}]", row_pointer(operand, rows), inside);
  }
  append(rows);
  append(columns);
  return fmt::format("{}[{}]", operand_names_[operand], inside.empty() ? "0" : inside);
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
  std::vector<std::string> list;
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    if (operand_names_[o].empty() || !is_used(static_cast<int>(o))) continue;
    const ir::Operand& operand = body_.operands[o];
    const bool is_written = operand.output >= 0;
    list.push_back(
        fmt::format("{}{}* {}", is_written ? "" : "const ", c_type(operand.dtype), operand_names_[o]));
    source.arguments.push_back(use_of(static_cast<int>(o)));
  }
  if (source.workspace_bytes > 0) list.push_back("float* workspace");
  list.push_back("[[maybe_unused]] int layer");
  return fmt::format("{}", fmt::join(list, ", "));
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
  const int64_t rows = body_.row_count();
  if (body_.row_variables == 0 || rows == 1) {
    out_.open("{");
    if (body_.row_variables > 0) out_.line("constexpr std::int64_t r = 0;");
  } else {
    if (!is_small()) out_.line("#pragma omp parallel for schedule(static)");
    out_.open(fmt::format("for (std::int64_t r = 0; r < {}; ++r) {{", rows));
  }
  print_row();
  out_.close();
}

void CpuBodyPrinter::print_row_blocks() {
  const int64_t rows = body_.row_count(), count = blocks();
  if (!is_small()) out_.line("#pragma omp parallel for schedule(static)");
  out_.open(fmt::format("for (std::int64_t block = 0; block < {}; ++block) {{", count));
  out_.line(fmt::format("float* sums = workspace + block * {};", sum_width_));
  out_.line(fmt::format("std::fill_n(sums, {}, 0.0f);", sum_width_));
  if (rows == count) {
    // Without a loop: g++ unrolls one of a single turn before it vectorizes, and sums the loops inside one
    // by one.
    out_.open("{");
    out_.line("const std::int64_t r = block;");
  } else {
    out_.open(fmt::format("for (std::int64_t r = block * {0} / {1}; r < (block + 1) * {0} / {1}; ++r) {{",
                          rows, count));
  }
  print_row();
  out_.close();
  out_.close();
  int64_t offset = 0;
  for (int s : sums_) {
    print_final_sum(body_.stores[s], offset, count);
    offset += sum_elements(body_.stores[s]);
  }
}

void CpuBodyPrinter::print_final_sum(const Store& store, int64_t offset, int64_t count) {
  const int64_t elements = sum_elements(store);
  const std::string at = offset == 0 ? "" : fmt::format(" + {}", offset);
  const char* assign = store.kind == StoreKind::add_column_sum ? "+=" : "=";
  if (elements == 1) {
    out_.open("{");
    out_.line("float total = 0.0f;");
    out_.line(
        fmt::format("for (std::int64_t block = 0; block < {}; ++block) total += workspace[block * {}{}];",
                    count, sum_width_, at));
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
  if (elements * count > 65536)
    out_.line("#pragma omp parallel for simd schedule(static)");
  else
    out_.line("#pragma omp simd");
  out_.open(fmt::format("for (std::int64_t column = 0; column < {}; ++column) {{", elements));
  out_.line("float total = 0.0f;");
  out_.line(fmt::format(
      "for (std::int64_t block = 0; block < {}; ++block) total += workspace[block * {}{} + column];", count,
      sum_width_, at));
  // The column sums' index is the bare columns, so the flat column number finds the element.
  std::vector<std::string> saved = variables_;
  variables_[space[0]] = "column";
  out_.line(fmt::format("{} {} total;", element(store.operand, store.index), assign));
  variables_ = saved;
  out_.close();
}

void CpuBodyPrinter::print_columns_outside() {
  for (int s : sums_) {
    const Store& store = body_.stores[s];
    const std::vector<int>& space = body_.spaces[store.space];
    const int64_t outer = body_.variables[space[0]].size, inner = body_.variables[space[1]].size;
    out_.line("#pragma omp parallel for schedule(static)");
    out_.open(fmt::format("for (std::int64_t {0} = 0; {0} < {1}; ++{0}) {{", variables_[space[0]], outer));
    out_.line("#pragma omp simd");
    out_.open(fmt::format("for (std::int64_t {0} = 0; {0} < {1}; ++{0}) {{", variables_[space[1]], inner));
    out_.line("float total = 0.0f;");
    out_.open(fmt::format("for (std::int64_t r = 0; r < {}; ++r) {{", body_.row_count()));
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
  out_ = std::move(outside);
  print_row_variables();
  for (const auto& [key, name] : row_pointers_) {
    const ir::Operand& operand = body_.operands[key.first];
    out_.line(fmt::format("{}{}* {} = {} + {};", operand.output >= 0 ? "" : "const ", c_type(operand.dtype),
                          name, operand_names_[key.first], key.second));
  }
  out_.append(row);
}

void CpuBodyPrinter::print_row_variables() {
  if (!needs_row_variables_) return;
  int64_t below = 1;
  for (int v = body_.row_variables; v-- > 0;) {
    const int64_t size = body_.variables[v].size;
    std::string value = below == 1 ? "r" : fmt::format("r / {}", below);
    if (v > 0) value += fmt::format(" % {}", size);
    out_.line(fmt::format("[[maybe_unused]] const std::int64_t {} = {};", variables_[v], value));
    below *= size;
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
    out_.line(fmt::format("{} = {};", element(store.operand, store.index), text_.of(store.value)));
    return;
  }
  out_.line(fmt::format("sums[{}] += {};", sum_offset(store), text_.of(store.value)));
}

KernelSource cpu_kernel(const ir::Graph& graph, const ir::Node& fused) {
  KernelSource source = CpuBodyPrinter(graph, fused).print();
  source.name = std::get<std::string>(fused.attributes.at("name"));
  return source;
}

}  // namespace hydrac::codegen
