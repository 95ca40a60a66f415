#include "emit/folder/written_out.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "ir/words.h"

namespace hydrac::emit {

namespace {

// How tightly an operator binds its operands; other words and signs are none.
constexpr int kNoOperator = 0, kUnary = 9, kPrimary = 10;

int binding(std::string_view word) {
  static const std::map<std::string_view, int> table = {{"?", 1}, {"||", 2}, {"&&", 3}, {"==", 4}, {"!=", 4},
                                                        {"<", 5}, {"<=", 5}, {">", 5},  {">=", 5}, {"+", 6},
                                                        {"-", 6}, {"*", 7},  {"/", 7},  {"%", 7}};
  const auto found = table.find(word);
  return found == table.end() ? kNoOperator : found->second;
}

// The loosest of the operators outside of parentheses, each of which stands between spaces.
int loosest(std::string_view expression) {
  int least = expression.starts_with("-") || expression.starts_with("!") ? kUnary : kPrimary, depth = 0;
  for (size_t at = 0, end = 0; at < expression.size(); at = end + 1) {
    end = std::min(expression.find(' ', at), expression.size());
    const std::string_view word = expression.substr(at, end - at);
    if (depth == 0 && binding(word) != kNoOperator) least = std::min(least, binding(word));
    for (const char c : word)
      depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
  }
  return least;
}

// True where an expression needs no parentheses between these.
bool stands_alone(std::string_view before, std::string_view expression, std::string_view behind) {
  int left = kNoOperator, right = kNoOperator;
  if (before.ends_with(' ')) {
    before.remove_suffix(1);
    left = binding(before.substr(before.find_last_of(" (") + 1));
  } else if (!before.empty() && std::string_view("-!+*&~.>").find(before.back()) != std::string_view::npos) {
    left = kUnary;
  }
  if (behind.starts_with(' ')) {
    behind.remove_prefix(1);
    right = binding(behind.substr(0, behind.find(' ')));
  } else if (!behind.empty() && std::string_view("[(.-").find(behind.front()) != std::string_view::npos) {
    right = kUnary;
  }
  const int own = loosest(expression);
  return own > left && own >= right;
}

class WrittenOut {
 public:
  WrittenOut(std::string_view other, const NamedValues& values) : other_(other), values_(values) {}

  using Ends = std::set<size_t>;

  // Ends of the stretches of the other line that begin at `at` and are `text`, with some of the first
  // `count` values written out.
  Ends ends(std::string_view text, size_t count, size_t at) {
    Ends here = {at};
    ir::split_words(text, [&](std::string_view part, bool is_word) {
      Ends next;
      for (const size_t from : here) {
        if (other_.substr(from, part.size()) == part) next.insert(from + part.size());
        if (is_word) next.merge(ends_of_value(text, part, count, from));
      }
      here = std::move(next);
    });
    return here;
  }

 private:
  // The same of a value that `name`, a part of `text`, stands for.
  Ends ends_of_value(std::string_view text, std::string_view name, size_t count, size_t at) {
    const auto end = values_.begin() + static_cast<std::ptrdiff_t>(count);
    const auto value = std::find_if(values_.begin(), end, [&](const auto& v) { return v.first == name; });
    if (value == end) return {};
    const auto index = static_cast<size_t>(value - values_.begin());
    Ends found;
    if (at < other_.size() && other_[at] == '(') {
      for (const size_t inside : written_out(index, at + 1)) {
        if (inside < other_.size() && other_[inside] == ')') found.insert(inside + 1);
      }
    }
    const auto place = static_cast<size_t>(name.data() - text.data());
    if (stands_alone(text.substr(0, place), value->second, text.substr(place + name.size())))
      found.merge(Ends(written_out(index, at)));
    return found;
  }

  const Ends& written_out(size_t value, size_t at) {
    const auto known = known_.find({value, at});
    if (known != known_.end()) return known->second;
    Ends found = ends(values_[value].second, value, at);
    return known_[{value, at}] = std::move(found);
  }

  std::string_view other_;
  const NamedValues& values_;
  std::map<std::pair<size_t, size_t>, Ends> known_;  // by value and where it begins
};

}  // namespace

bool is_written_out(const std::string& line, const std::string& other, const NamedValues& values) {
  return line == other || WrittenOut(other, values).ends(line, values.size(), 0).contains(other.size());
}

}  // namespace hydrac::emit
