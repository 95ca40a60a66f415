#include "codegen/dimensions.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <set>

namespace hydrac::codegen {

namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool is_upper(char c) {
  return std::isupper(static_cast<unsigned char>(c)) != 0;
}
bool is_lower(char c) {
  return std::islower(static_cast<unsigned char>(c)) != 0;
}

bool is_dimension(const std::string& symbol) {
  if (symbol.empty() || !is_upper(symbol[0])) return false;
  for (char c : symbol.substr(1)) {
    if (!is_lower(c)) return false;
  }
  return true;
}

// "(H+2K)D/2"
class SymbolParser {
 public:
  SymbolParser(const std::string& text, const std::map<std::string, int64_t>& sizes)
      : text_(text), sizes_(sizes) {}

  std::optional<Size> run() {
    const std::optional<Size> size = sum();
    return at_ == text_.size() ? size : std::nullopt;
  }

 private:
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<Size> sum() {
    std::optional<Size> total = product();
    while (total && take('+')) {
      const std::optional<Size> more = product();
      if (!more) return std::nullopt;
      total = *total + *more;
    }
    return total;
  }

  std::optional<Size> product() {
    std::optional<Size> result = factor();
    while (result && at_ < text_.size() && text_[at_] != '+' && text_[at_] != ')') {
      const bool divides = take('/');
      const std::optional<Size> next = factor();
      if (!next || (divides && (next->value == 0 || result->value % next->value != 0))) return std::nullopt;
      result = divides ? exact_quotient(*result, *next) : *result * *next;
    }
    return result;
  }

  std::optional<Size> factor() {
    if (take('(')) {
      const std::optional<Size> inside = sum();
      return take(')') ? inside : std::nullopt;
    }
    const size_t start = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ > start) return literal(std::stoll(text_.substr(start, at_ - start)));
    if (at_ == text_.size() || !is_upper(text_[at_])) return std::nullopt;
    ++at_;
    while (at_ < text_.size() && is_lower(text_[at_])) ++at_;
    const auto found = sizes_.find(text_.substr(start, at_ - start));
    if (found == sizes_.end()) return std::nullopt;
    return named(found->second, found->first);
  }

  const std::string& text_;
  const std::map<std::string, int64_t>& sizes_;
  size_t at_ = 0;
};

}  // namespace

bool Size::is_literal() const {
  return code.names.empty() && code.text == std::to_string(value);
}

Size literal(int64_t value) {
  Size size{value, std::to_string(value)};
  if (value < 0) size.code.precedence = Precedence::sum;  // as a factor it has parentheses
  return size;
}

Size named(int64_t value, const std::string& name) {
  return {value, named(name)};
}

// A quotient is exact only as a whole.
Code as_factor(const Size& size) {
  return within(size.code, Precedence::product);
}

Code as_dividend(const Size& size) {
  return within(size.code, Precedence::quotient);
}

Code as_divisor(const Size& size) {
  return within(size.code, Precedence::primary);
}

Size sum_of(const std::vector<Size>& sizes) {
  if (sizes.empty()) return literal(0);
  bool are_same = true;
  for (const Size& size : sizes) are_same = are_same && size.code.text == sizes[0].code.text;
  if (are_same) return literal(static_cast<int64_t>(sizes.size())) * sizes[0];
  Size total = sizes[0];
  for (size_t i = 1; i < sizes.size(); ++i) total = total + sizes[i];
  return total;
}

Size operator*(const Size& a, const Size& b) {
  if (a.value == 1) return b;
  if (b.value == 1) return a;
  return {a.value * b.value, code(Precedence::product, "{} * {}", as_factor(a), as_factor(b))};
}

Size operator+(const Size& a, const Size& b) {
  return {a.value + b.value, code(Precedence::sum, "{} + {}", a, b)};
}

Size exact_quotient(const Size& a, const Size& b) {
  if (b.value == 1) return a;
  return {a.value / b.value, code(Precedence::quotient, "{} / {}", as_dividend(a), as_divisor(b))};
}

Size ceiling_quotient(const Size& a, const Size& b) {
  if (a.value % b.value == 0) return exact_quotient(a, b);
  const Size more =
      b.is_literal() ? literal(b.value - 1) : Size{b.value - 1, code(Precedence::sum, "{} - 1", b)};
  Size result = exact_quotient(a + more, b);
  result.value = (a.value + b.value - 1) / b.value;
  return result;
}

Dimensions::Dimensions(const ir::Graph& graph) {
  std::set<std::string> ambiguous;
  for (const ir::Value& value : graph.values) {
    for (const ir::Dim& dim : value.shape) {
      if (!is_dimension(dim.symbol)) continue;
      const auto [known, is_new] = sizes_.try_emplace(dim.symbol, dim.size);
      if (known->second != dim.size) ambiguous.insert(dim.symbol);
    }
  }
  for (const std::string& symbol : ambiguous) sizes_.erase(symbol);
}

Size Dimensions::of(const ir::Dim& dim) const {
  const std::optional<Size> size = SymbolParser(dim.symbol, sizes_).run();
  return size && size->value == dim.size ? *size : literal(dim.size);
}

Size Dimensions::of(const ir::Shape& shape, size_t first_dim) const {
  Size product;
  for (size_t d = first_dim; d < shape.size(); ++d) product = product * of(shape[d]);
  return product;
}

Size stride_size(const Dimensions& dimensions, const ir::Graph& graph, ir::ValueId value, int64_t stride) {
  constexpr int64_t small = 4;
  if (stride <= small) return literal(stride);
  for (ir::ValueId at : {value, storage_of(graph, value)}) {
    const ir::Shape& shape = graph.value(at).shape;
    for (size_t d = shape.size(); d-- > 0;) {
      if (const Size size = dimensions.of(shape, d); size.value == stride) return size;
    }
  }
  return literal(stride);
}

std::vector<program::Dimension> Dimensions::all() const {
  std::vector<program::Dimension> all;
  for (const auto& [symbol, size] : sizes_) all.push_back({symbol, size});
  return all;
}

std::string dimension_constants(const std::vector<program::Dimension>& dimensions, const Names& names) {
  std::string constants;
  for (const program::Dimension& dimension : dimensions) {
    if (names.contains(dimension.symbol))
      constants += fmt::format("inline constexpr std::int64_t {} = {};\n", dimension.symbol, dimension.size);
  }
  return constants;
}

}  // namespace hydrac::codegen
