#include "codegen/body_printer.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::kRowSpace;

BodyPrinter::BodyPrinter(const ir::Graph& graph, const ir::Node& node, const std::set<std::string>& reserved,
                         const Dialect& dialect)
    : BodyNames(graph, node, reserved),
      dialect_(dialect),
      text_(
          body_, [this](ExprId id) { return value_name(id); },
          [this](const ir::Expr& load) { return load_code(load); },
          [this](ExprId constant, ExprId beside) { return constant_code(constant, beside); },
          [this](const ir::Affine& at) { return position(at); }, variables_, dialect) {}

std::string BodyPrinter::variable_type(ExprId id) const {
  return std::string(codegen::c_type(body_.exprs[id].type));
}

void BodyPrinter::define(ExprId id) {
  const Code value = definition(id);
  names_[id] = unique(wanted_name(id));
  out_.line("const {} {} = {};", variable_type(id), names_[id], value);
}

void BodyPrinter::print_uniform() {
  for (ExprId id : uniform_values()) define(id);
}

void BodyPrinter::print_row_values(int level) {
  for (ExprId id : live_) {
    const ir::Dependence& dep = deps_[id];
    if (dep.space != kRowSpace || dep.uniform || dep.level != level) continue;
    if (!is_reduction(body_.exprs[id].op) && deserves_name(id) && names_[id].empty()) define(id);
  }
}

void BodyPrinter::print_stages() {
  for (size_t s = 0; s < stages_.size(); ++s) {
    const auto level = static_cast<int>(s);
    print_row_values(level);
    before_loops(level);
    for (const Loop& loop : stages_[s].loops) print_loop(loop, level);
    for (int store : stages_[s].row_stores) print_row_store(body_.stores[store]);
  }
}

Block BodyPrinter::with_row_pointers(Block row) {
  Block all;
  for (int v = body_.row_variables; v-- > 0;) {
    const Size below = rows_below(v);
    const bool divides = below.value > 1 || v > 0;
    Code value = divides && has_narrow_rows() ? code("static_cast<unsigned>({})", named("r")) : named("r");
    if (below.value > 1) value = code("{} / {}", value, parenthesized(below.code));
    if (v > 0) value = code("{} % {}", value, parenthesized(dimensions_.of(body_.variables[v]).code));
    all.declare_where_used("const std::int64_t", variables_[v].text, value);
  }
  for (const auto& [key, pointer] : row_pointers_) {
    const int operand = key.first;
    all.line("{} {} = {} + {};", pointer_type(operand), pointer.name, operand_names_[operand],
             row_offset(operand, pointer.rows));
    taken_.erase(pointer.name);
  }
  row_pointers_.clear();
  all.add(std::move(row));
  return all;
}

std::string BodyPrinter::c_type(int operand) const {
  return std::string(codegen::c_type(body_.operands[operand].dtype, dialect_));
}

std::string BodyPrinter::pointer_type(int operand) const {
  return fmt::format("{}{}*", body_.operands[operand].output >= 0 ? "" : "const ", c_type(operand));
}

// Pointers to rows are declared once; what expressions or columns add stands where it is used.
BodyPrinter::Place BodyPrinter::place(int operand, const ir::Index& index) {
  const Address at = address(operand, index, text_);
  const std::string& name = operand_names_[operand];
  if (Code offset = named_offset(at); !offset.empty()) return {name, offset};
  const Code columns = at.columns == ir::Affine{} ? Code() : columns_offset(operand, at.columns);
  const Code rows = rows_offset(operand, at.rows);
  if (has_row_pointers_ && !rows.empty() && at.gathered.empty() && !at.columns.terms.empty())
    return {row_pointer(operand, rows), columns};
  return {name, sum_of(sum_of(at.gathered, rows), columns)};
}

Code BodyPrinter::pointer(int operand, const ir::Index& index) {
  const Place at = place(operand, index);
  return at.offset.empty() ? Code(at.base) : code("{} + {}", at.base, at.offset);
}

Code BodyPrinter::element(int operand, const ir::Index& index) {
  const Place at = place(operand, index);
  return at.offset.empty() ? code("{}[0]", at.base) : code("{}[{}]", at.base, at.offset);
}

std::string BodyPrinter::row_pointer(int operand, const Code& rows) {
  auto [found, is_new] = row_pointers_.try_emplace({operand, rows.text}, RowPointer{"", rows});
  if (is_new) found->second.name = unique(operand_names_[operand] + "_row");
  return found->second.name;
}

}  // namespace hydrac::codegen
