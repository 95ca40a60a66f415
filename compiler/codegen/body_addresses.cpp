// Addresses of elements: of loads and stores, and of the partial sums of columns.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>

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
    Code at = text.of(index[d].gather);
    if (view.strides[d] != 1) {
      const Size stride = size_in(operand, view.strides[d]);  // digits are no 64-bit number
      at = code("{} * {}", parenthesized(at),
                stride.is_literal() ? code("std::int64_t{{{}}}", stride) : as_factor(stride));
    }
    result.gathered = sum_of(result.gathered, at);
  }
  result.columns.constant = flat.constant;
  for (const auto& term : flat.terms)
    (term.first < body_.row_variables ? result.rows : result.columns).terms.push_back(term);
  return result;
}

Code BodyNames::rows_code(const Affine& rows, const Numbers& numbers) const {
  int64_t step = 0, below = 1;
  bool flat = true;
  std::map<int, int64_t> coefficients(rows.terms.begin(), rows.terms.end());
  for (int v = body_.row_variables; v-- > 0;) {
    // It is 0. The first one, a batch of one, has the text of any batch.
    if (v > 0 && body_.variables[v].size == 1) continue;
    const int64_t coefficient = coefficients.contains(v) ? coefficients[v] : 0;
    if (below == 1) step = coefficient;
    flat = flat && coefficient == step * below;
    below *= body_.variables[v].size;
  }
  if (!flat) return affine_code(rows, variables_, numbers);
  if (step == 0) return {};
  return step == 1 ? named("r") : code("{} * {}", named("r"), as_factor(numbers(step)));
}

Code BodyNames::rows_offset(int operand, const Affine& rows) const {
  return rows_code(rows, [&](int64_t value) { return size_in(operand, value); });
}

Code BodyNames::columns_offset(int operand, const Affine& columns) const {
  return columns_code(columns, [&](int64_t value) { return size_in(operand, value); });
}

Code BodyNames::position_code(const Affine& position) const {
  // The symbol of a width of columns wins, because rows may have the same number.
  const auto number = [&](int64_t value) {
    for (int space = static_cast<int>(body_.spaces.size()); space-- > kRowSpace;) {
      ir::Shape shape = body_.row_shape();
      for (const ir::Dim& dim : body_.space_shape(space)) shape.push_back(dim);
      for (size_t d = shape.size(); d-- > 0;) {
        if (const Size size = dimensions_.of(shape, d); size.value == value) return size;
      }
    }
    return literal(value);
  };
  Affine rows, columns{position.constant, {}};
  for (const auto& term : position.terms)
    (term.first < body_.row_variables ? rows : columns).terms.push_back(term);
  const Code row = rows_code(rows, number);
  if (row.empty()) return columns_code(columns, number);
  if (columns == Affine{}) return row;
  if (columns.terms.empty() && columns.constant < 0) return code("{} - {}", row, -columns.constant);
  return sum_of(row, columns_code(columns, number));
}

std::optional<BodyNames::FlatColumns> BodyNames::as_flat_columns(const Affine& columns) const {
  const std::map<int, int64_t> coefficients(columns.terms.begin(), columns.terms.end());
  for (const auto& [space, column] : flat_columns_) {
    int64_t step = 0, below = 1;
    size_t terms = 0;
    bool is_flat = true;
    for (const int v : body_.spaces[space] | std::views::reverse) {
      const auto coefficient = coefficients.find(v);
      terms += coefficient != coefficients.end() ? 1 : 0;
      if (body_.variables[v].size == 1) continue;  // it is 0
      const int64_t wanted = coefficient == coefficients.end() ? 0 : coefficient->second;
      if (below == 1) step = wanted;
      is_flat = is_flat && wanted == step * below;
      below *= body_.variables[v].size;
    }
    if (is_flat && step != 0 && terms == coefficients.size()) return FlatColumns{space, step};
  }
  return std::nullopt;
}

Code BodyNames::columns_code(const Affine& columns, const Numbers& numbers) const {
  const std::optional<FlatColumns> flat = as_flat_columns(columns);
  if (!flat) return affine_code(columns, variables_, numbers);
  Code at = flat_columns_.at(flat->space);
  if (columns.terms.back().first == element_variable_) at = code(Precedence::sum, "{} + j", at);
  if (flat->step != 1)
    at =
        code(Precedence::product, "{} * {}", within(at, Precedence::product), as_factor(numbers(flat->step)));
  return columns.constant == 0 ? at : sum_of(at, numbers(columns.constant).code);
}

// An offset within a row is a width of columns.
Size BodyNames::size_in(int operand, int64_t value) const {
  const ir::ValueId id = use_of(operand).value;
  const Size stride = stride_size(dimensions_, graph_, id, value);
  if (!stride.is_literal()) return stride;
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

Code BodyNames::sum_offset_code(const Store& wanted) const {
  return sum_offset(wanted) == 0 ? Code() : sum_offset_size(wanted).code;
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

}  // namespace hydrac::codegen
