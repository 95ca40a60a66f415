// Prints a body after a matmul as the epilogue struct that the matmul's kernel calls for every eight columns
// of a row.
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda/body_printer.h"
#include "codegen/cuda/matmul.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using Kind = ColumnAccess::Kind;

// The tensors in memory that the epilogue itself reads or writes. The results of column sums belong to the
// second kernel.
std::vector<int> CudaBodyPrinter::epilogue_tensors() const {
  std::vector<int> tensors;
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    const int operand = static_cast<int>(o);
    const bool is_summed =
        std::ranges::any_of(sums_, [&](int s) { return body_.stores[s].operand == operand; });
    const bool is_register = is_matmul(operand) && body_.operands[o].output < 0;
    if (!operand_names_[o].empty() && is_used(operand) && !is_summed && !is_register)
      tensors.push_back(operand);
  }
  return tensors;
}

// Names eight columns of the matmul, or of each of its halves, as the parameters that bring them.
std::vector<std::string> CudaBodyPrinter::take_matmuls() {
  const bool is_paired = node_.flag("paired");
  std::vector<std::string> parameters(is_paired ? 2 : 1);
  for (ExprId id : live_) {
    const ir::Expr& expr = body_.exprs[id];
    if (expr.op != ExprOp::load || !is_matmul(expr.operand)) continue;
    const bool is_second = expr.index.back().affine.constant > 0;
    const std::string name =
        is_paired && !body_.name_of(id).empty() ? body_.name_of(id) : operand_names_[expr.operand];
    const std::string taken = unique(name + "_in");
    columns_[id] = {taken, {Kind::consecutive, kColumnsOfAnEpilogue}};
    parameters[is_second ? 1 : 0] = fmt::format(
        "const Vector<{}, {}>& {}", codegen::c_type(graph_.value(node_.matmul).dtype, kCudaDialect),
        kColumnsOfAnEpilogue, taken);
  }
  return parameters;
}

// The one that its columns are.
int CudaBodyPrinter::epilogue_space() const {
  return std::ranges::find_if(body_.stores, [](const ir::Store& s) { return s.space != ir::kRowSpace; })
      ->space;
}

namespace {

std::string unique_field(std::string name, Names& fields) {
  while (!fields.insert(name).second) name += "_2";
  return name;
}

}  // namespace

// The loads of columns that depend on the row, or those that do not, as members of a struct. `fields`: names
// of the first ones in use.
std::vector<ExprId> CudaBodyPrinter::take_loads(bool invariant, Block& members, Names& fields) {
  const int space = epilogue_space();
  std::vector<ExprId> loads;
  for (ExprId id : live_) {
    const ir::Expr& expr = body_.exprs[id];
    if (expr.op != ExprOp::load || deps_[id].space != space || columns_.contains(id) ||
        is_invariant(id) != invariant)
      continue;
    const std::string wanted = body_.name_of(id).empty() ? operand_names_[expr.operand] : body_.name_of(id);
    const std::string name = invariant ? unique(wanted + "_in") : unique_field(wanted, fields);
    columns_[id] = {invariant ? name : code("{}.{}", named("in"), name), access_of(id)};
    members.line("{}", load_member(id, name));
    loads.push_back(id);
  }
  return loads;
}

// The loads that depend on the row alone.
std::vector<ExprId> CudaBodyPrinter::take_row_loads(Block& operands, Names& fields) {
  std::vector<ExprId> loads;
  for (ExprId id : live_) {
    if (body_.exprs[id].op != ExprOp::load || deps_[id].space != ir::kRowSpace || deps_[id].uniform) continue;
    const std::string field = unique_field(wanted_name(id), fields);
    names_[id] = code("{}.{}", named("in"), field);
    operands.line("{} {};", codegen::c_type(body_.exprs[id].type), field);
    loads.push_back(id);
  }
  return loads;
}

std::string CudaBodyPrinter::load_member(ExprId load, const std::string& name) const {
  const std::string type = c_type(body_.exprs[load].operand);
  if (columns_.at(load).access.kind == Kind::constant) return fmt::format("{} {};", type, name);
  return fmt::format("Vector<{}, {}> {};", type, kColumnsOfAnEpilogue, name);
}

// The index of an element of the operand, in 32 bits if these suffice: addresses are a good part of an
// epilogue's work.
Code CudaBodyPrinter::in_32_bits(int operand, const Code& number) {
  const Size elements = dimensions_.of(graph_.value(storage_of(graph_, use_of(operand).value)).shape);
  if (elements.value >= int64_t{1} << 32) return number;
  bounds_.insert(elements.code.text + " < std::int64_t{1} << 32");
  return code("static_cast<std::uint32_t>({})", number);
}

// Defines the index of the first element, for tensors whose layout is rows times columns, before `code` if it
// needs that.
Block CudaBodyPrinter::with_first_element(Block code) {
  if (!code.drop_unused().contains("first")) return code;
  const Size width = width_of(epilogue_space()), elements = rows_size() * width;
  const Code number = codegen::code("{} * {} + {}", named("r"), as_factor(width), epilogue_column());
  Block all;
  if (elements.value < (int64_t{1} << 32)) {
    bounds_.insert(elements.code.text + " < std::int64_t{1} << 32");
    all.declare_where_used("const auto", "first", codegen::code("static_cast<std::uint32_t>({})", number));
  } else {
    all.declare_where_used("const std::int64_t", "first", number);
  }
  all.add(std::move(code));
  return all;
}

namespace {

// "int c", or "int" where the function does not name it.
std::string parameter(const std::string& type, const std::string& name, const Names& used) {
  return used.contains(name) ? type + " " + name : type;
}

Block function(const std::string& result, const std::string& parameters, const char* behind, Block body) {
  Block function;
  function.open("__device__ {}({}){}", result, parameters, behind);
  function.add(std::move(body));
  function.close();
  return function;
}

}  // namespace

// The part that is the same for all rows of a thread's columns.
Block CudaBodyPrinter::begin_function(const std::vector<ExprId>& loads) {
  Block body = written([&] {
    for (ExprId id : uniform_values()) out_.line("{} = {};", names_[id], definition(id));
    for (const ExprId id : loads) print_load(epilogue_space(), id);
  });
  const std::string column = parameter("int", epilogue_column().text, body.drop_unused());
  return function("void begin", column, "", std::move(body));
}

// The loads of a row, which are under way before the matmul is there.
Block CudaBodyPrinter::load_function(const std::vector<ExprId>& loads, const std::vector<ExprId>& row_loads) {
  Block copies = with_row_pointers(written([&] {
    for (const ExprId id : row_loads) out_.line("{} = {};", names_[id], definition(id));
    for (const ExprId id : loads) print_load(epilogue_space(), id);
  }));
  copies.drop_unused();
  Block body;
  if (copies.empty()) {
    body.line("return {{}};");
  } else {
    body.line("Operands in;");
    body.add(std::move(copies));
    body.line("return in;");
  }
  body = with_first_element(std::move(body));
  const Names used = body.drop_unused();
  const std::string parameters = fmt::format("{}, {}", parameter("std::int64_t", "r", used),
                                             parameter("int", epilogue_column().text, used));
  return function("Operands load", parameters, " const", std::move(body));
}

// The body itself, in one pass.
Block CudaBodyPrinter::work_function(const std::vector<std::string>& matmuls) {
  Block body = with_first_element(written([&] { print_row(); }));
  const Names used = body.drop_unused();
  const std::string parameters =
      fmt::format("std::int64_t r, int {}, {}, {}", epilogue_column().text, fmt::join(matmuls, ", "),
                  parameter("const Operands&", "in", used));
  return function("void operator()", parameters, "", std::move(body));
}

// The struct's members: tensors, sums, and values that are the same for all rows.
Block CudaBodyPrinter::epilogue_members() const {
  Block members;
  for (const int operand : epilogue_tensors())
    members.line("{} {};", pointer_type(operand), operand_names_[operand]);
  if (takes_layer()) members.line("int layer;");
  if (!sums_.empty()) {
    members.line("float* partials[{}];", sums_.size());
    members.line("float sum[{}][{}];", sums_.size(), kColumnsOfAnEpilogue);
  }
  for (ExprId id : uniform_values())
    members.line("{} {};", codegen::c_type(body_.exprs[id].type), names_[id]);
  return members;
}

Block CudaBodyPrinter::epilogue() {
  const std::vector<std::string> matmuls = take_matmuls();
  Block row_operands, operands, invariants;
  Names fields;
  const std::vector<ExprId> invariant = take_loads(true, invariants, fields),
                            of_columns = take_loads(false, operands, fields),
                            of_rows = take_row_loads(row_operands, fields);
  for (size_t s = 0; s < sums_.size(); ++s) sum_names_[sums_[s]] = {"sum", fmt::format("sum[{}][j]", s)};
  counts_elements_ = body_.spaces.size() == 1;
  flat_space_ = epilogue_space();
  for (ExprId id : uniform_values()) names_[id] = unique(wanted_name(id));
  const Block members = epilogue_members();
  const Block begin = begin_function(invariant), load = load_function(of_columns, of_rows),
              work = sums_over_rows() ? apply_function(matmuls) : work_function(matmuls);
  Block text;
  text.open("struct {}_epilogue", kNamePlaceholder);
  text.add(named_constants("static "));
  text.line("static constexpr int sums = {};", sums_.size()).comment = "over the rows, for each column";
  text.open("struct Operands");
  text.add(row_operands);
  text.add(operands);
  text.close("};");
  if (sums_over_rows()) text.add(passes_members());
  text.add(members);
  text.add(invariants);
  text.blank();
  for (const Block& function : {begin, load, work}) text.add(function);
  text.close("};");
  return text;
}

}  // namespace hydrac::codegen
