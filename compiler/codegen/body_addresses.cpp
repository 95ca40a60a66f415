// Where elements lie, as text: addresses of loads and stores, and of the partial sums of columns.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/body_names.h"

namespace hydrac::codegen {

using ir::Affine;
using ir::kRowSpace;
using ir::Store;

Address BodyNames::address(int operand, const ir::Index& index, const ExpressionText& text) const {
  const ir::View view = resolved_view(graph_, use_of(operand).value);
  Affine flat;
  Address result;
  for (size_t d = 0; d < index.size(); ++d) {
    flat = flat + index[d].affine * view.strides[d];
    if (index[d].gather < 0) continue;
    std::string at = text.of(index[d].gather);
    if (view.strides[d] != 1) {
      const Size stride = size_in(operand, view.strides[d]);  // digits are no 64-bit number
      const bool is_number = stride.text == std::to_string(stride.value);
      at = fmt::format("{} * {}", parenthesized(at),
                       is_number ? fmt::format("std::int64_t{{{}}}", stride.text) : as_factor(stride));
    }
    result.gathered += (result.gathered.empty() ? "" : " + ") + at;
  }
  result.columns.constant = flat.constant;
  for (const auto& term : flat.terms)
    (term.first < body_.row_variables ? result.rows : result.columns).terms.push_back(term);
  return result;
}

std::string BodyNames::rows_text(const Affine& rows, const Numbers& numbers) const {
  int64_t step = 0, below = 1;
  bool flat = true;
  std::map<int, int64_t> coefficients(rows.terms.begin(), rows.terms.end());
  for (int v = body_.row_variables; v-- > 0;) {
    const int64_t coefficient = coefficients.contains(v) ? coefficients[v] : 0;
    if (below == 1) step = coefficient;
    flat = flat && coefficient == step * below;
    below *= body_.variables[v].size;
  }
  if (flat) return step == 0 ? "" : step == 1 ? "r" : "r * " + numbers(step);
  needs_row_variables_ = true;
  return affine_text(rows, variables_, numbers);
}

std::string BodyNames::rows_text(int operand, const Affine& rows) const {
  return rows_text(rows, [&](int64_t value) { return as_factor(size_in(operand, value)); });
}

std::string BodyNames::position_text(const Affine& position) const {
  // As the width of columns first: rows may be as many.
  const auto number = [&](int64_t value) {
    for (int space = static_cast<int>(body_.spaces.size()); space-- > kRowSpace;) {
      ir::Shape shape = body_.row_shape();
      for (const ir::Dim& dim : body_.space_shape(space)) shape.push_back(dim);
      for (size_t d = shape.size(); d-- > 0;) {
        if (const Size size = dimensions_.of(shape, d); size.value == value) return as_factor(size);
      }
    }
    return std::to_string(value);
  };
  Affine rows, columns{position.constant, {}};
  for (const auto& term : position.terms)
    (term.first < body_.row_variables ? rows : columns).terms.push_back(term);
  const std::string row = rows_text(rows, number);
  if (columns == Affine{} && !row.empty()) return row;
  const std::string column = columns_text(columns, number);
  if (row.empty()) return column;
  return column.starts_with("-") ? row + " - " + column.substr(1) : row + " + " + column;
}

std::string BodyNames::affine(int operand, const Affine& affine) const {
  return columns_text(affine, [&](int64_t value) { return as_factor(size_in(operand, value)); });
}

bool BodyNames::is_flat_column(const Affine& columns) const {
  if (columns.constant != 0 || columns.terms.empty()) return false;
  const std::map<int, int64_t> coefficients(columns.terms.begin(), columns.terms.end());
  return std::ranges::any_of(body_.spaces, [&](const std::vector<int>& space) {
    size_t found = 0;
    int64_t below = 1;
    for (size_t v = space.size(); v-- > 0; below *= body_.variables[space[v]].size) {
      const auto coefficient = coefficients.find(space[v]);
      if (coefficient != coefficients.end() ? coefficient->second != below
                                            : body_.variables[space[v]].size > 1)
        return false;
      found += coefficient != coefficients.end() ? 1 : 0;
    }
    return space.size() > 1 && found == coefficients.size();
  });
}

std::string BodyNames::columns_text(const Affine& columns, const Numbers& numbers) const {
  if (flat_column_.empty() || !is_flat_column(columns)) return affine_text(columns, variables_, numbers);
  const std::string& last = variables_[columns.terms.back().first];
  return flat_column_ + (last.ends_with(" + j") ? " + j" : "");
}

// An offset within a row is a width of columns.
Size BodyNames::size_in(int operand, int64_t value) const {
  const ir::ValueId id = use_of(operand).value;
  const Size stride = stride_size(dimensions_, graph_, id, value);
  if (stride.text != std::to_string(value)) return stride;
  for (size_t v = body_.row_variables; v < body_.variables.size(); ++v) {
    if (body_.variables[v].size == value) return dimensions_.of(body_.variables[v]);
  }
  return stride;
}

Size BodyNames::rows_below(int v) const {
  return dimensions_.of(body_.row_shape(), static_cast<size_t>(v) + 1);
}

// ---- column sums

int64_t BodyNames::sum_elements(const Store& store) const {
  return element_count(body_.space_shape(store.space));
}

Size BodyNames::sums_size() const {
  std::vector<Size> widths;
  for (int s : sums_) widths.push_back(width_of(body_.stores[s].space));
  return sum_of(widths);
}

Size BodyNames::sum_offset_size(const Store& wanted) const {
  std::vector<Size> widths;
  for (int s : sums_) {
    if (&body_.stores[s] == &wanted) break;
    widths.push_back(width_of(body_.stores[s].space));
  }
  return sum_of(widths);
}

int64_t BodyNames::sum_offset(const Store& wanted) const {
  int64_t offset = 0;
  for (int s : sums_) {
    if (&body_.stores[s] == &wanted) break;
    offset += sum_elements(body_.stores[s]);
  }
  return offset;
}

Affine BodyNames::sum_position(const Store& store) const {
  Affine flat{sum_offset(store), {}};
  int64_t stride = 1;
  if (store.space == kRowSpace) return flat;
  const std::vector<int>& space = body_.spaces[store.space];
  for (size_t v = space.size(); v-- > 0;) {
    flat = flat + Affine::of(space[v], stride);
    stride *= body_.variables[space[v]].size;
  }
  return flat;
}

std::string parenthesized(const std::string& text) {
  return text.find_first_of(" ") == std::string::npos ? text : "(" + text + ")";
}

}  // namespace hydrac::codegen
