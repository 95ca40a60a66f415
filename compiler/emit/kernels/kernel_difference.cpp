#include "emit/kernels/kernel_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

#include "emit/folder/written_out.h"
#include "ir/words.h"

namespace hydrac::emit {

namespace {

using Kind = LineEdit::Kind;

std::string unindented(const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first);
}

// Pairs of equal lines, as many as possible, in the order of both.
std::vector<std::pair<size_t, size_t>> common_lines(const Lines& a, const Lines& b) {
  std::vector<std::vector<int>> most(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;)
      most[i][j] = a[i] == b[j] ? most[i + 1][j + 1] + 1 : std::max(most[i + 1][j], most[i][j + 1]);
  }
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) {
      pairs.emplace_back(i++, j++);
    } else {
      most[i + 1][j] >= most[i][j + 1] ? ++i : ++j;
    }
  }
  return pairs;
}

// The name that a line declares for those behind it.
std::optional<std::string> declared_by(const std::string& line) {
  static const std::regex declaration(
      R"((?:const(?:expr)? )?[\w:]+(?:<.*>)?\*? (\w+)(?:\[.*\]|\(.*\))*(?: = .*)?;)");
  std::smatch match;
  if (!std::regex_match(line, match, declaration) || line.starts_with("return ")) return std::nullopt;
  return match[1].str();
}

// `const float x = a + b;`: x and its value.
std::optional<std::pair<std::string, std::string>> value_of(const std::string& line) {
  static const std::regex constant(R"(const [\w:]+ (\w+) = (.+);)");
  std::smatch match;
  if (!std::regex_match(line, match, constant)) return std::nullopt;
  return std::pair{match[1].str(), match[2].str()};
}

int depth_of(const std::string& line) {
  if (is_comment(line)) return 0;
  return static_cast<int>(std::ranges::count(line, '{') - std::ranges::count(line, '}'));
}

class KernelComparison {
 public:
  KernelComparison(const Lines& larger, const Lines& smaller, const std::vector<std::string>& missing)
      : missing_(missing) {
    for (const std::string& line : larger) larger_.push_back(unindented(line));
    for (const std::string& line : smaller) smaller_.push_back(unindented(line));
  }

  std::optional<KernelDifference> run() {
    std::vector<std::pair<size_t, size_t>> pairs = common_lines(larger_, smaller_);
    for (const auto& [i, j] : pairs) result_.shared += is_comment(larger_[i]) ? 0 : 1;
    pairs.emplace_back(larger_.size(), smaller_.size());
    size_t i = 0, j = 0;
    for (const auto& [next_i, next_j] : pairs) {
      if (!take(i, next_i, j, next_j)) return std::nullopt;
      i = next_i + 1, j = next_j + 1;
    }
    if (!own_.empty() && missing_.empty()) return std::nullopt;
    if (!wrap_own() || hides_declarations()) return std::nullopt;
    if (!result_.edits.empty() && missing_.empty()) return std::nullopt;
    return std::move(result_);
  }

 private:
  // Lines between two that are equal.
  bool take(size_t i, size_t end, size_t j, size_t other_end) {
    NamedValues values;
    std::vector<size_t> own;
    for (; i < end; ++i) {
      if (is_comment(larger_[i])) continue;  // it stays
      while (j < other_end && is_comment(smaller_[j])) ++j;
      if (j < other_end && (differ_in_constant(i, j) || is_written_out(larger_[i], smaller_[j], values))) {
        ++result_.shared, ++j;
        continue;
      }
      if (const auto value = value_of(larger_[i])) values.push_back(*value);
      own.push_back(i);
    }
    while (j < other_end && is_comment(smaller_[j])) ++j;
    if (j < other_end) {
      const auto counterpart = std::ranges::find_if(own, [&](size_t line) {
        return is_statement(larger_[line]) && head_of(larger_[line]) == head_of(smaller_[j]);
      });
      if (other_end - j != 1 || counterpart == own.end() || !is_statement(smaller_[j])) return false;
      result_.edits[*counterpart] = {Kind::exchanged, *counterpart, smaller_[j]};
      own.erase(counterpart);
    }
    own_.insert(own_.end(), own.begin(), own.end());
    return true;
  }

  // The function that a statement calls, or the name that it writes.
  static std::string head_of(const std::string& line) { return line.substr(0, line.find_first_of("([ ")); }

  static bool is_statement(const std::string& line) {
    return line.ends_with(";") && depth_of(line) == 0 && !declared_by(line);
  }

  bool differ_in_constant(size_t i, size_t j) {
    static const std::regex rows(R"(for \(std::int64_t r = 0; r < (.+); \+\+r\) \{)");
    std::smatch a, b;
    if (std::regex_match(larger_[i], a, rows) && std::regex_match(smaller_[j], b, rows)) {
      result_.constants.push_back({"std::int64_t", "kRows", a[1], b[1]});
      result_.replaced[i] = "for (std::int64_t r = 0; r < kRows; ++r) {";
      return true;
    }
    auto constant = constant_of(larger_[i]);
    const auto other = constant_of(smaller_[j]);
    if (!constant || !other || constant->type != other->type || constant->name != other->name) return false;
    // Not every nvcc takes such arguments of templates.
    if (constant->type == "float" || constant->type == "double") return false;
    constant->smaller = other->larger;
    result_.constants.push_back(std::move(*constant));
    result_.replaced[i] = "";
    return true;
  }

  // Statements that only the larger kernel has, in blocks; what later lines need is declared before them.
  bool wrap_own() {
    for (size_t at = 0; at < own_.size();) {
      size_t end = at + 1;
      while (end < own_.size() && follows(own_[end - 1], own_[end])) ++end;
      if (!wrap_run(own_[at], own_[end - 1])) return false;
      at = end;
    }
    return true;
  }

  // With nothing but own comments between them.
  bool follows(size_t before, size_t line) const {
    return std::all_of(larger_.begin() + static_cast<std::ptrdiff_t>(before) + 1,
                       larger_.begin() + static_cast<std::ptrdiff_t>(line), is_comment);
  }

  bool wrap_run(size_t first, size_t last) {
    const std::set<size_t> declarations = needed_declarations(first, last);
    std::optional<size_t> open;
    int depth = 0;
    for (size_t i = first; i <= last; ++i) {
      if (declarations.contains(i)) {
        if (open) result_.edits[*open] = {Kind::opens, i - 1, ""};
        open.reset();
        if (!declare_for_both(i)) return false;
        continue;
      }
      if (!open && is_comment(larger_[i])) continue;
      if (!open) open = i;
      depth += depth_of(larger_[i]);
      if (depth < 0) return false;
    }
    if (open) result_.edits[*open] = {Kind::opens, last, ""};
    return depth == 0;
  }

  // Those of the lines, outside of blocks, that others or such declarations name.
  std::set<size_t> needed_declarations(size_t first, size_t last) const {
    std::set<size_t> needed;
    int depth = 0;
    for (size_t i = last + 1; i-- > first;) {
      depth -= depth_of(larger_[i]);
      const auto name = depth == 0 ? declared_by(larger_[i]) : std::nullopt;
      if (!name) continue;
      for (size_t user = 0; user < larger_.size(); ++user) {
        const bool is_outside = user < first || user > last || (user > i && needed.contains(user));
        if (is_outside && ir::has_word(larger_[user], *name)) needed.insert(i);
      }
    }
    return needed;
  }

  // A declaration that the smaller kernel has too, for nothing: unless it takes from a parameter that is left
  // out.
  bool declare_for_both(size_t i) {
    const bool takes = std::ranges::any_of(
        missing_, [&](const std::string& parameter) { return ir::has_word(larger_[i], parameter); });
    if (!takes) return true;
    static const std::regex pointer(R"((?:const )?[\w:]+\* \w+ = \w+ \+ .+;)"),
        scalar(R"(const float \w+ = \w+\[0\];)");
    const bool is_pointer = std::regex_match(larger_[i], pointer);
    result_.edits[i] = {Kind::guarded, i, is_pointer ? "nullptr" : "0.0f"};
    return is_pointer || std::regex_match(larger_[i], scalar);
  }

  // True if a name between these is a function's: not that of a variable with arguments, which follows its
  // type.
  static bool is_called(const std::string& before, const std::string& behind) {
    const bool follows_type = before.ends_with(" ") && before.size() > 1 &&
                              (std::isalnum(static_cast<unsigned char>(before[before.size() - 2])) != 0 ||
                               before[before.size() - 2] == '>');
    return (behind.starts_with("(") || behind.starts_with("<")) && !follows_type;
  }

  // True if a name that comes up first in a block that was made here is used behind it: whatever declares it,
  // it would be out of scope.
  bool hides_declarations() const {
    static const std::regex word(R"([A-Za-z_]\w*)");
    std::map<std::string, size_t> ends;  // of the block that a name came up in first, or 0
    for (size_t i = 0, end = 0; i < larger_.size(); ++i) {
      const auto edit = result_.edits.find(i);
      if (edit != result_.edits.end() && edit->second.kind == Kind::opens) end = edit->second.closes + 1;
      if (i >= end) end = 0;
      if (is_comment(larger_[i])) continue;
      for (std::sregex_iterator it(larger_[i].begin(), larger_[i].end(), word), last; it != last; ++it) {
        const auto at = static_cast<size_t>(it->position());
        if (is_called(larger_[i].substr(0, at), it->suffix())) continue;
        const size_t first_end = ends.try_emplace(it->str(), end).first->second;
        if (first_end != 0 && i >= first_end) return true;
      }
    }
    return false;
  }

  Lines larger_, smaller_;
  const std::vector<std::string>& missing_;
  std::vector<size_t> own_;  // lines of the larger kernel only
  KernelDifference result_;
};

}  // namespace

bool is_comment(const std::string& line) {
  return line.compare(std::min(line.find_first_not_of(' '), line.size()), 2, "//") == 0 ||
         line.find_first_not_of(' ') == std::string::npos;
}

std::optional<DifferentConstant> constant_of(const std::string& line) {
  static const std::regex constant(R"(\s*constexpr ([\w:]+) (\w+) = (.+?);(?:\s*//.*)?)");
  std::smatch match;
  if (!std::regex_match(line, match, constant)) return std::nullopt;
  return DifferentConstant{match[1], match[2], match[3], ""};
}

std::optional<KernelDifference> kernel_difference(const Lines& larger, const Lines& smaller,
                                                  const std::vector<std::string>& missing) {
  return KernelComparison(larger, smaller, missing).run();
}

std::string template_body(const Lines& larger, const std::map<size_t, std::string>& replaced,
                          const std::map<size_t, LineEdit>& edits, const std::string& flag) {
  std::string text;
  size_t closes = larger.size();
  for (size_t i = 0; i < larger.size(); ++i) {
    std::string line = larger[i];
    if (const auto found = replaced.find(i); found != replaced.end()) line = found->second;
    if (const auto found = edits.find(i); found != edits.end()) {
      const LineEdit& edit = found->second;
      if (edit.kind == Kind::opens && edit.closes == i) {
        line = fmt::format("if constexpr ({}) {}", flag, line);
      } else if (edit.kind == Kind::opens) {
        text += fmt::format("if constexpr ({}) {{\n", flag);
        closes = edit.closes;
      } else if (edit.kind == Kind::guarded) {
        const size_t value = line.find(" = ") + 3;
        line = fmt::format("{}{} ? {} : {};", line.substr(0, value), flag,
                           line.substr(value, line.rfind(';') - value), edit.other);
      } else {
        line = fmt::format("if constexpr ({})\n{}\nelse\n{}", flag, line, edit.other);
      }
    }
    if (!line.empty() || larger[i].empty()) text += line + "\n";
    if (i == closes) text += "}\n";
  }
  return text;
}

}  // namespace hydrac::emit
