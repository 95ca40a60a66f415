// A body behind a matmul as the struct that the matmul's kernel calls as each eight columns of a row are
// ready.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda_body_printer.h"
#include "codegen/cuda_matmul.h"
#include "ir/words.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::ExprOp;
using Kind = ColumnAccess::Kind;

// The tensors in memory that the epilogue itself reads or writes; what sums are added to is the second
// kernel's.
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

std::string CudaBodyPrinter::tensor_member(int operand) const {
  return fmt::format("{}{}* {}", body_.operands[operand].output >= 0 ? "" : "const ", c_type(operand),
                     operand_names_[operand]);
}

// Names eight columns of the matmul, or of each of its halves, as the parameters that bring them.
std::vector<std::string> CudaBodyPrinter::take_matmuls() {
  const bool is_paired = node_.flag("paired");
  std::vector<std::string> parameters(is_paired ? 2 : 1);
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const ir::Expr& expr = body_.exprs[i];
    const auto id = static_cast<ExprId>(i);
    if (!live_[i] || expr.op != ExprOp::load || !is_matmul(expr.operand)) continue;
    const bool is_second = expr.index.back().affine.constant > 0;
    const std::string name =
        is_paired && !body_.name_of(id).empty() ? body_.name_of(id) : operand_names_[expr.operand];
    columns_[id] = {unique(name + "_in"), {Kind::consecutive, kColumnsOfAnEpilogue}};
    parameters[is_second ? 1 : 0] = columns_[id].name;
  }
  const auto type = codegen::c_type(graph_.value(node_.matmul).dtype, kCudaDialect);
  for (std::string& parameter : parameters)
    parameter = fmt::format("const Vector<{}, {}>& {}", type, kColumnsOfAnEpilogue, parameter);
  return parameters;
}

// The one that its columns are.
int CudaBodyPrinter::epilogue_space() const {
  return std::ranges::find_if(body_.stores, [](const ir::Store& s) { return s.space != ir::kRowSpace; })
      ->space;
}

// The loads of columns that depend on the row, or those that do not, under the names of what holds them.
// `fields`: what is in use of these names.
std::vector<ExprId> CudaBodyPrinter::take_loads(bool invariant, std::set<std::string>& fields) {
  const int space = epilogue_space();
  std::vector<ExprId> loads;
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const ir::Expr& expr = body_.exprs[i];
    const auto id = static_cast<ExprId>(i);
    if (!live_[i] || expr.op != ExprOp::load || deps_[i].space != space || columns_.contains(id) ||
        is_invariant(id) != invariant)
      continue;
    std::string name = body_.name_of(id).empty() ? operand_names_[expr.operand] : body_.name_of(id);
    if (invariant) {
      name = unique(name + "_in");
    } else {
      while (!fields.insert(name).second) name += "_2";
      name = "in." + name;
    }
    columns_[id] = {name, column_access(graph_, node_, expr.operand, expr.index, space, deps_)};
    loads.push_back(id);
  }
  return loads;
}

// The loads that depend on the row alone.
std::vector<ExprId> CudaBodyPrinter::take_row_loads(std::set<std::string>& fields) {
  std::vector<ExprId> loads;
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const auto id = static_cast<ExprId>(i);
    if (!live_[i] || body_.exprs[i].op != ExprOp::load || deps_[i].space != ir::kRowSpace || deps_[i].uniform)
      continue;
    std::string name = wanted_name(id);
    while (!fields.insert(name).second) name += "_2";
    names_[i] = "in." + name;
    loads.push_back(id);
  }
  return loads;
}

std::string CudaBodyPrinter::load_member(ExprId load, const std::string& name) const {
  const std::string type = c_type(body_.exprs[load].operand);
  if (columns_.at(load).access.kind == Kind::constant) return fmt::format("{} {};", type, name);
  return fmt::format("Vector<{}, {}> {};", type, kColumnsOfAnEpilogue, name);
}

namespace {

// What stands behind "in.".
std::string field_of(const std::string& member) {
  return member.substr(std::string("in.").size());
}

std::string function_head(const std::string& result, const std::string& parameters,
                          const std::string& behind) {
  return fmt::format("__device__ {}({}){} {{", result, parameters, behind);
}

}  // namespace

// The number of an element of the operand, in 32 bits where these suffice: addresses are a good part of an
// epilogue's work.
std::string CudaBodyPrinter::in_32_bits(int operand, const std::string& number) {
  const Size elements = dimensions_.of(graph_.value(storage_of(graph_, use_of(operand).value)).shape);
  if (elements.value >= int64_t{1} << 32) return number;
  bounds_.insert(elements.text + " < std::int64_t{1} << 32");
  return fmt::format("static_cast<std::uint32_t>({})", number);
}

// The number of the first element in tensors that lie as rows and columns count.
std::string CudaBodyPrinter::first_definition(int space) {
  const Size width = width_of(space);
  const std::string number = fmt::format("r * {} + {}", as_factor(width), variables_[body_.spaces[space][0]]);
  const Size elements = rows_size() * width;
  const bool is_small = elements.value < (int64_t{1} << 32);
  if (is_small) bounds_.insert(elements.text + " < std::int64_t{1} << 32");
  return is_small ? fmt::format("const auto first = static_cast<std::uint32_t>({});", number)
                  : fmt::format("const std::int64_t first = {};", number);
}

// What is the same for all rows of a thread's columns.
std::string CudaBodyPrinter::begin_function(const std::vector<ExprId>& loads) {
  const int space = epilogue_space();
  const std::string& column = variables_[body_.spaces[space][0]];
  out_ = Writer(2);
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    if (live_[i] && deps_[i].uniform && deps_[i].space == ir::kRowSpace && !names_[i].empty())
      out_.line(fmt::format("{} = {};", names_[i], definition(static_cast<ExprId>(i))));
  }
  for (const ExprId id : loads) print_load(space, id);
  const std::string text = out_.text();
  out_ = Writer(1);
  out_.open(function_head("void begin", ir::has_word(text, column) ? "int " + column : "int", ""));
  out_.append(text);
  out_.close();
  return out_.text();
}

// The loads of a row, which are under way before the matmul is there.
std::string CudaBodyPrinter::load_function(const std::vector<ExprId>& loads,
                                           const std::vector<ExprId>& row_loads) {
  const int space = epilogue_space();
  const std::string& column = variables_[body_.spaces[space][0]];
  out_ = Writer(2);
  for (const ExprId id : row_loads) out_.line(fmt::format("{} = {};", names_[id], definition(id)));
  for (const ExprId id : loads) print_load(space, id);
  const std::string copies = out_.text();
  out_ = Writer(2);
  const std::string pointers = row_pointers();
  print_row_variables(pointers + copies);
  const std::string text = out_.text() + pointers + copies;
  for (const auto& [key, name] : row_pointers_) taken_.erase(name);
  row_pointers_.clear();
  needs_row_variables_ = false;
  const bool names_first = ir::has_word(text, "first");
  const auto parameter = [&](const std::string& type, const std::string& name) {
    return type + (names_first || ir::has_word(text, name) ? " " + name : "");
  };
  out_ = Writer(1);
  out_.open(function_head("Operands load", parameter("std::int64_t", "r") + ", " + parameter("int", column),
                          " const"));
  if (names_first) out_.line(first_definition(space));
  if (text.empty()) {
    out_.line("return {};");
  } else {
    out_.line("Operands in;");
    out_.append(text);
    out_.line("return in;");
  }
  out_.close();
  return out_.text();
}

// The body itself, in one pass.
std::string CudaBodyPrinter::work_function(const std::vector<std::string>& matmuls) {
  const int space = epilogue_space();
  const std::string& column = variables_[body_.spaces[space][0]];
  out_ = Writer(2);
  print_row();
  const std::string row = out_.text();
  const bool names_first = ir::has_word(row, "first");
  out_ = Writer(1);
  out_.open(function_head("void operator()",
                          fmt::format("std::int64_t r, int {}, {}, const Operands&{}", column,
                                      fmt::join(matmuls, ", "), ir::has_word(row, "in") ? " in" : ""),
                          ""));
  if (names_first) out_.line(first_definition(space));
  out_.append(row);
  out_.close();
  return out_.text();
}

std::string CudaBodyPrinter::epilogue_text() {
  const std::vector<std::string> matmuls = take_matmuls();
  std::set<std::string> fields;
  const std::vector<ExprId> of_columns = take_loads(true, fields), own = take_loads(false, fields),
                            of_rows = take_row_loads(fields);
  for (size_t s = 0; s < sums_.size(); ++s) sum_names_[sums_[s]] = fmt::format("sum[{}][j]", s);
  counts_elements_ = body_.spaces.size() == 1;
  flat_space_ = epilogue_space();
  Writer types(1), members(1);
  for (const std::string& line : named_constants()) types.line("static " + line);
  types.line(fmt::format("static constexpr int sums = {};  // over the rows, for each column", sums_.size()));
  types.open("struct Operands {");
  for (const ExprId id : of_rows)
    types.line(fmt::format("{} {};", codegen::c_type(body_.exprs[id].type), field_of(names_[id])));
  for (const ExprId id : own) types.line(load_member(id, field_of(columns_.at(id).name)));
  types.close("};");
  for (const int operand : epilogue_tensors()) members.line(tensor_member(operand) + ";");
  if (takes_layer()) members.line("int layer;");
  if (!sums_.empty()) {
    members.line(fmt::format("float* partials[{}];", sums_.size()));
    members.line(fmt::format("float sum[{}][{}];", sums_.size(), kColumnsOfAnEpilogue));
  }
  for (size_t i = 0; i < body_.exprs.size(); ++i) {
    const auto id = static_cast<ExprId>(i);
    if (!live_[i] || !deps_[i].uniform || deps_[i].space != ir::kRowSpace || !deserves_name(id)) continue;
    names_[i] = unique(wanted_name(id));
    members.line(fmt::format("{} {};", codegen::c_type(body_.exprs[i].type), names_[i]));
  }
  for (const ExprId id : of_columns) members.line(load_member(id, columns_.at(id).name));
  const std::string begin = begin_function(of_columns), load = load_function(own, of_rows),
                    work = sums_over_rows() ? apply_function(matmuls) : work_function(matmuls);
  return fmt::format("struct {}_epilogue {{\n{}{}{}\n{}{}{}}};\n", kNamePlaceholder, types.text(),
                     sums_over_rows() ? passes_members() : "", members.text(), begin, load, work);
}

}  // namespace hydrac::codegen
