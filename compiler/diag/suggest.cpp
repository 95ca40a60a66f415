#include "diag/suggest.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace hydrac::diag {
namespace {

// Longer words than this are nobody's typing error; comparing them would only take long.
constexpr size_t kLongestWord = 64;

char folded(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '-' || c == ' ' ? '_' : c;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  size_t length = 0;
  while (length < a.size() && length < b.size() && folded(a[length]) == folded(b[length])) ++length;
  return length;
}

std::string digits_of(std::string_view word) {
  std::string digits;
  for (const char c : word)
    if (c >= '0' && c <= '9') digits += c;
  return digits;
}

// True if `word` may be `candidate` with typing errors, and not another word. Digits distinguish versions and
// sizes (relu2, rtx5080), a first letter is seldom wrong (qlora), and an error does not replace half of a
// part (flash_attention, fp8_attention).
bool may_mean(std::string_view word, std::string_view candidate) {
  if (digits_of(word) != digits_of(candidate)) return false;
  const bool swapped = word.size() > 1 && candidate.size() > 1 && folded(word[0]) == folded(candidate[1]) &&
                       folded(word[1]) == folded(candidate[0]);
  if (folded(word[0]) != folded(candidate[0]) && !swapped) return false;
  while (!word.empty() && !candidate.empty()) {
    const auto take_part = [](std::string_view& rest) {
      const auto end = std::ranges::find(rest, '_', folded) - rest.begin();
      const std::string_view part = rest.substr(0, static_cast<size_t>(end));
      rest.remove_prefix(std::min(rest.size(), part.size() + 1));
      return part;
    };
    const std::string_view a = take_part(word), b = take_part(candidate);
    // Parts are compared one by one where there are as many of both.
    if (word.empty() != candidate.empty()) return true;
    if (edit_distance(a, b) > std::max<size_t>(1, std::max(a.size(), b.size()) / 2)) return false;
  }
  return true;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped =
          i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> known) {
  if (word.empty() || word.size() > kLongestWord) return "";
  const size_t farthest = std::max<size_t>(1, word.size() / 3);
  std::string best;
  std::pair<size_t, ptrdiff_t> best_rank;  // distance, then the longest common beginning
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance > farthest || distance >= candidate.size() || !may_mean(word, candidate)) continue;
    const std::pair rank{distance, -static_cast<ptrdiff_t>(common_prefix(word, candidate))};
    if (!best.empty() && rank >= best_rank) continue;
    best = candidate;
    best_rank = rank;
  }
  return best;
}

std::string one_of(std::span<const std::string> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace hydrac::diag
