#include "emit/dimensions.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <set>

namespace hydrac::emit {

namespace {

bool is_letter(const std::string& symbol) {
  return symbol.size() == 1 && std::isupper(static_cast<unsigned char>(symbol[0]));
}

// A symbol such as "(H+2K)D" or "D/2" as a C++ expression with its value; no value where a letter is unknown.
class SymbolText {
 public:
  SymbolText(const std::string& symbol, const std::map<std::string, int64_t>& sizes)
      : symbol_(symbol), sizes_(sizes) {
    value_ = sum(text_);
    if (at_ != symbol_.size()) value_.reset();
  }

  const std::string& text() const { return text_; }
  std::optional<int64_t> value() const { return value_; }

 private:
  bool at(char c) const { return at_ < symbol_.size() && symbol_[at_] == c; }

  std::optional<int64_t> sum(std::string& text) {
    std::optional<int64_t> total = factors(text);
    while (total && at('+')) {
      ++at_;
      std::string right;
      const std::optional<int64_t> more = factors(right);
      if (!more) return std::nullopt;
      *total += *more;
      text += " + " + right;
    }
    return total;
  }

  std::optional<int64_t> factors(std::string& text) {
    std::optional<int64_t> product;
    while (at_ < symbol_.size() && !at('+') && !at(')')) {
      const bool divides = at('/');
      if (divides) ++at_;
      std::string right;
      const std::optional<int64_t> factor = one(right);
      if (!factor || (divides && !product)) return std::nullopt;
      text += text.empty() ? right : (divides ? " / " : " * ") + right;
      product = !product ? *factor : divides ? *product / *factor : *product * *factor;
    }
    return product;
  }

  std::optional<int64_t> one(std::string& text) {
    if (at('(')) {
      ++at_;
      std::string inner;
      const std::optional<int64_t> value = sum(inner);
      if (!value || !at(')')) return std::nullopt;
      ++at_;
      text = "(" + inner + ")";
      return value;
    }
    if (at_ < symbol_.size() && std::isdigit(static_cast<unsigned char>(symbol_[at_]))) {
      while (at_ < symbol_.size() && std::isdigit(static_cast<unsigned char>(symbol_[at_])))
        text += symbol_[at_++];
      return std::stoll(text);
    }
    if (at_ >= symbol_.size()) return std::nullopt;
    text = symbol_[at_++];
    const auto found = sizes_.find(text);
    if (found == sizes_.end()) return std::nullopt;
    return found->second;
  }

  const std::string& symbol_;
  const std::map<std::string, int64_t>& sizes_;
  size_t at_ = 0;
  std::string text_;
  std::optional<int64_t> value_;
};

}  // namespace

Dimensions::Dimensions(const ir::Graph& graph) {
  std::set<std::string> ambiguous;
  for (const ir::Value& value : graph.values) {
    for (const ir::Dim& dim : value.shape) {
      if (!is_letter(dim.symbol)) continue;
      const auto [known, added] = sizes_.emplace(dim.symbol, dim.size);
      if (!added && known->second != dim.size) ambiguous.insert(dim.symbol);
    }
  }
  for (const std::string& symbol : ambiguous) sizes_.erase(symbol);
}

std::string Dimensions::text(const ir::Dim& dim) const {
  const SymbolText symbol(dim.symbol, sizes_);
  return symbol.value() == dim.size ? symbol.text() : fmt::format("{}", dim.size);
}

std::string Dimensions::product(const ir::Shape& shape) const {
  std::string product;
  for (const ir::Dim& dim : shape) {
    if (dim.size == 1) continue;
    std::string factor = text(dim);
    // A quotient or sum is one factor among others.
    const bool compound = factor.find_first_of("/+") != std::string::npos && factor.back() != ')';
    if (compound && shape.size() > 1) factor = "(" + factor + ")";
    product += (product.empty() ? "" : " * ") + factor;
  }
  return product.empty() ? "1" : product;
}

}  // namespace hydrac::emit
