#include "codegen/dimensions.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <set>

#include "ir/words.h"

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
    return Size{found->second, found->first};
  }

  const std::string& text_;
  const std::map<std::string, int64_t>& sizes_;
  size_t at_ = 0;
};

}  // namespace

std::string without_comments(const std::string& code) {
  std::string result;
  for (size_t at = 0; at < code.size();) {
    if (code.compare(at, 2, "//") == 0) at = std::min(code.find('\n', at), code.size());
    if (at < code.size()) result += code[at++];
  }
  return result;
}

Size literal(int64_t value) {
  return {value, std::to_string(value)};
}

namespace {

// Whether one of the operators stands outside all parentheses.
bool has_outside(const std::string& text, std::string_view operators) {
  int depth = 0;
  for (char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth == 0 && operators.find(c) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::string as_factor(const Size& size) {
  return has_outside(size.text, "+-/") ? "(" + size.text + ")" : size.text;
}

std::string as_dividend(const Size& size) {
  return has_outside(size.text, "+-") ? "(" + size.text + ")" : size.text;
}

std::string as_divisor(const Size& size) {
  return has_outside(size.text, "+-*/") ? "(" + size.text + ")" : size.text;
}

Size sum_of(const std::vector<Size>& sizes) {
  if (sizes.empty()) return literal(0);
  bool are_same = true;
  for (const Size& size : sizes) are_same = are_same && size.text == sizes[0].text;
  if (are_same) return literal(static_cast<int64_t>(sizes.size())) * sizes[0];
  Size total = sizes[0];
  for (size_t i = 1; i < sizes.size(); ++i) total = total + sizes[i];
  return total;
}

Size operator*(const Size& a, const Size& b) {
  if (a.value == 1) return b;
  if (b.value == 1) return a;
  return {a.value * b.value, as_factor(a) + " * " + as_factor(b)};
}

Size operator+(const Size& a, const Size& b) {
  return {a.value + b.value, a.text + " + " + b.text};
}

Size exact_quotient(const Size& a, const Size& b) {
  if (b.value == 1) return a;
  return {a.value / b.value, as_dividend(a) + " / " + as_divisor(b)};
}

Size ceiling_quotient(const Size& a, const Size& b) {
  if (a.value % b.value == 0) return exact_quotient(a, b);
  const Size more =
      b.text == std::to_string(b.value) ? literal(b.value - 1) : Size{b.value - 1, b.text + " - 1"};
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

std::string dimension_constants(const std::vector<program::Dimension>& dimensions, const std::string& code) {
  const std::string text = without_comments(code);
  std::string constants;
  for (const program::Dimension& dimension : dimensions) {
    if (ir::has_word(text, dimension.symbol))
      constants += fmt::format("inline constexpr std::int64_t {} = {};\n", dimension.symbol, dimension.size);
  }
  return constants;
}

}  // namespace hydrac::codegen
