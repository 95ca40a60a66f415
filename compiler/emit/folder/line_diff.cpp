#include "emit/folder/line_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace hydrac::emit {

namespace {

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

// Finds which lines of two lists are not in their longest common subsequence. Lines are numbers here: equal
// lines have equal numbers.
class LineComparison {
 public:
  LineComparison(const Lines& a, const Lines& b) : removed(a.size()), added(b.size()) {
    std::unordered_map<std::string_view, int> numbers;
    const auto number = [&](std::string_view line) {
      return numbers.try_emplace(line, static_cast<int>(numbers.size())).first->second;
    };
    for (std::string_view line : a) a_.push_back(number(line));
    for (std::string_view line : b) b_.push_back(number(line));
    most_ = static_cast<int>(a.size() + b.size()) + 1;
    forward_.resize(2 * static_cast<std::size_t>(most_) + 3);
    backward_ = forward_;
    compare(0, static_cast<int>(a.size()), 0, static_cast<int>(b.size()));
  }

  std::vector<bool> removed, added;

 private:
  struct Point {
    int x, y;
  };

  bool equal(int x, int y) const {
    return a_[static_cast<std::size_t>(x)] == b_[static_cast<std::size_t>(y)];
  }

  void compare(int a0, int a1, int b0, int b1) {
    while (a0 < a1 && b0 < b1 && equal(a0, b0)) ++a0, ++b0;
    while (a0 < a1 && b0 < b1 && equal(a1 - 1, b1 - 1)) --a1, --b1;
    if (a0 == a1 || b0 == b1) {
      std::fill(removed.begin() + a0, removed.begin() + a1, true);
      std::fill(added.begin() + b0, added.begin() + b1, true);
      return;
    }
    const Point middle = middle_of(a0, a1, b0, b1);
    compare(a0, middle.x, b0, middle.y);
    compare(middle.x, a1, middle.y, b1);
  }

  // A point on a shortest path of edits from (a0, b0) to (a1, b1): where the furthest paths of `edits` edits
  // from either end meet. On diagonal k = x - y, forward_ and backward_ hold the x that such a path reaches.
  Point middle_of(int a0, int a1, int b0, int b1) {
    const int first = a0 - b0, last = a1 - b1;
    const auto forward = [&](int k) -> int& {
      return forward_[static_cast<std::size_t>(most_ + 1 + k - first)];
    };
    const auto backward = [&](int k) -> int& {
      return backward_[static_cast<std::size_t>(most_ + 1 + k - last)];
    };
    const bool odd = (last - first) % 2 != 0;
    forward(first + 1) = a0;
    backward(last - 1) = a1;
    for (int edits = 0;; ++edits) {
      for (int k = first - edits; k <= first + edits; k += 2) {
        int x = k == first - edits ? forward(k + 1) : forward(k - 1) + 1;
        if (k != first - edits && k != first + edits) x = std::max(x, forward(k + 1));
        while (x < a1 && x - k < b1 && equal(x, x - k)) ++x;
        forward(k) = x;
        if (odd && last - edits < k && k < last + edits && backward(k) <= x) return {x, x - k};
      }
      for (int k = last - edits; k <= last + edits; k += 2) {
        int x = k == last + edits ? backward(k - 1) : backward(k + 1) - 1;
        if (k != last - edits && k != last + edits) x = std::min(x, backward(k - 1));
        while (x > a0 && x - k > b0 && equal(x - 1, x - k - 1)) --x;
        backward(k) = x;
        if (!odd && first - edits <= k && k <= first + edits && x <= forward(k))
          return {forward(k), forward(k) - k};
      }
    }
  }

  std::vector<int> a_, b_, forward_, backward_;
  int most_ = 0;  // edits, and so diagonals to either side
};

std::vector<DiffLine> marked_lines(const Lines& a, const Lines& b) {
  const LineComparison comparison(a, b);
  std::vector<DiffLine> lines;
  for (std::size_t x = 0, y = 0; x < a.size() || y < b.size();) {
    if (x < a.size() && comparison.removed[x]) {
      lines.push_back({'-', a[x++]});
    } else if (y < b.size() && comparison.added[y]) {
      lines.push_back({'+', b[y++]});
    } else {
      lines.push_back({' ', a[x++]});
      ++y;
    }
  }
  return lines;
}

std::string range(std::size_t begin, std::size_t count) {
  return fmt::format("{},{}", count > 0 ? begin + 1 : begin, count);
}

}  // namespace

std::vector<Hunk> line_diff(std::string_view old_text, std::string_view new_text, std::size_t context) {
  const std::vector<DiffLine> lines = marked_lines(lines_of(old_text), lines_of(new_text));
  std::vector<Hunk> hunks;
  std::size_t old_line = 0, new_line = 0, next = 0;  // next: the first line that is in no hunk yet
  const auto take = [&](Hunk& hunk, std::size_t end) {
    for (; next < end; ++next) {
      hunk.lines.push_back(lines[next]);
      hunk.old_lines += lines[next].mark != '+';
      hunk.new_lines += lines[next].mark != '-';
    }
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].mark == ' ') continue;
    if (hunks.empty() || i > next + context) {
      if (!hunks.empty()) {
        old_line = hunks.back().old_begin + hunks.back().old_lines;
        new_line = hunks.back().new_begin + hunks.back().new_lines;
      }
      const std::size_t begin = std::max(next, i - std::min(i, context)), skipped = begin - next;
      hunks.push_back({.old_begin = old_line + skipped, .new_begin = new_line + skipped});
      next = begin;
    }
    take(hunks.back(), i + 1);
    std::size_t end = next;
    while (end < lines.size() && end < i + 1 + context && lines[end].mark == ' ') ++end;
    take(hunks.back(), end);
  }
  return hunks;
}

std::string header_of(const Hunk& hunk) {
  return fmt::format("@@ -{} +{} @@", range(hunk.old_begin, hunk.old_lines),
                     range(hunk.new_begin, hunk.new_lines));
}

}  // namespace hydrac::emit
