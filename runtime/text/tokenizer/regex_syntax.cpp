// Ruby's regular expressions in PCRE2's words. Both engines read most of what tokenizers use alike; this file
// lets only that through, and rewrites the three escapes whose Unicode meaning differs (\s, \w, and ^ $ which
// are per line in Ruby).
#include <fmt/core.h>

#include "runtime/base/quote.h"
#include "runtime/base/utf8.h"
#include "runtime/error.h"
#include "runtime/text/tokenizer/regex.h"

namespace hydrac::runtime {

namespace {

class Rewriter {
 public:
  Rewriter(std::string_view pattern, const std::string& shown_as) : pattern_(pattern), shown_as_(shown_as) {}

  std::string run() {
    if (const auto bad = find_malformed_utf8(pattern_)) refuse("malformed UTF-8");
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        character_class();
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        interval();
      } else if (c == '^' || c == '$') {
        out_ += c == '^' ? "(?m:^)" : "(?m:$)";
        ++at_;
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw InputError(fmt::format("{}: the regular expression \"{}\" uses {}, which is not supported",
                                 shown_as_, escaped(pattern_), what));
  }
  bool looking_at(std::string_view s) const { return pattern_.substr(at_, s.size()) == s; }
  void copy(size_t n) {
    out_ += pattern_.substr(at_, n);
    at_ += n;
  }
  char peek(size_t ahead) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }

  void escape(bool in_class) {
    const char c = peek(1);
    const auto put = [&](std::string_view replacement) {
      out_ += replacement;
      at_ += 2;
    };
    switch (c) {
      case 's':
        return put("\\p{White_Space}");
      case 'S':
        return put("\\P{White_Space}");
      case 'w':
        return put(in_class ? "\\p{L}\\p{M}\\p{Nd}\\p{Pc}" : "[\\p{L}\\p{M}\\p{Nd}\\p{Pc}]");
      case 'W':
        if (in_class) refuse("\\W in a set");
        return put("[^\\p{L}\\p{M}\\p{Nd}\\p{Pc}]");
      case 'd':
      case 'D':
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'v':
        if (c == 'v') return put("\\x0B");  // a single character in Ruby, any vertical space in PCRE2
        return copy(2);
      case 'A':
      case 'z':
        if (in_class) refuse(fmt::format("\\{}", c));
        return copy(2);
      case 'p':
      case 'P':
        return property();
      case 'x':
      case 'u':
        return code_point();
      case '\0':
        refuse("a \\ at its end");
      default:
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
          refuse(fmt::format("\\{}", c));
        if (static_cast<unsigned char>(c) >= 0x80) refuse("\\ before a letter beyond ASCII");
        return copy(2);
    }
  }

  void property() {
    const size_t close = pattern_.find('}', at_);
    if (peek(2) != '{' || close == std::string_view::npos) refuse("\\p without {name}");
    std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    if (name.empty()) refuse("\\p without {name}");
    // One or two letters are a general category. Other names are taken for scripts; "sc:" because PCRE2 alone
    // would mean the wider script extensions.
    out_ += fmt::format("\\{}{{{}{}{}}}", peek(1), negated ? "^" : "", name.size() > 2 ? "sc:" : "", name);
    at_ = close + 1;
  }

  // \xHH and \uHHHH and \x{H...}: the code point, as PCRE2 writes it.
  void code_point() {
    const auto is_hex = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    };
    const char kind = peek(1);
    size_t begin = at_ + 2, end = begin, next = begin;
    if (kind == 'x' && peek(2) == '{') {
      end = ++begin;
      while (end < pattern_.size() && is_hex(pattern_[end])) ++end;
      if (end >= pattern_.size() || pattern_[end] != '}' || end == begin) refuse("a malformed \\x{...}");
      next = end + 1;
    } else {
      const size_t digits = kind == 'x' ? 2 : 4;
      while (end < pattern_.size() && end - begin < digits && is_hex(pattern_[end])) ++end;
      if (end - begin != digits) refuse(fmt::format("a malformed \\{}", kind));
      next = end;
      if (kind == 'x' && pattern_[begin] >= '8') refuse("\\x beyond ASCII (a byte in Ruby)");
    }
    out_ += fmt::format("\\x{{{}}}", pattern_.substr(begin, end - begin));
    at_ = next;
  }

  void character_class() {
    copy(1);
    if (peek(0) == '^') copy(1);
    if (peek(0) == ']') refuse("an empty set");
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (pattern_[at_] == '\\') {
        escape(true);
      } else if (pattern_[at_] == '[') {
        refuse(peek(1) == ':' ? "a [:name:] set" : "a set within a set");
      } else if (looking_at("&&")) {
        refuse("an intersection of sets (&&)");
      } else {
        copy(1);
      }
    }
    if (at_ == pattern_.size()) refuse("a [ without ]");
    copy(1);
  }

  void group() {
    for (const std::string_view opening : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (looking_at(opening)) return copy(opening.size());
    }
    if (peek(1) == '?' || peek(1) == '*') refuse(fmt::format("the group {}", pattern_.substr(at_, 4)));
    copy(1);
  }

  // {n}, {n,} and {n,m}. A + behind one repeats it in Ruby and makes it possessive in PCRE2, a ? behind {n}
  // likewise.
  void interval() {
    const size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos) refuse("a { without }");
    const std::string_view inside = pattern_.substr(at_ + 1, close - at_ - 1);
    const size_t comma = inside.find(',');
    const std::string_view low = inside.substr(0, comma);
    const std::string_view high =
        comma == std::string_view::npos ? std::string_view() : inside.substr(comma + 1);
    if (low.empty() || fmt::format("{}{}", low, high).find_first_not_of("0123456789") != std::string::npos) {
      refuse(fmt::format("{{{}}}", inside));
    }
    copy(close + 1 - at_);
    if (peek(0) == '+') refuse(fmt::format("{{{}}}+", inside));
    if (peek(0) == '?' && comma == std::string_view::npos) refuse(fmt::format("{{{}}}?", inside));
  }

  std::string_view pattern_;
  const std::string& shown_as_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string ruby_to_pcre2(std::string_view pattern, const std::string& shown_as) {
  return Rewriter(pattern, shown_as).run();
}

}  // namespace hydrac::runtime
