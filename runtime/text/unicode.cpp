#include "runtime/text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "runtime/base/utf8.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

// `form`: UTF8PROC_COMPOSE or UTF8PROC_DECOMPOSE.
void append_normalized(std::string_view text, int form, std::string& out) {
  utf8proc_uint8_t* normalized = nullptr;
  const utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                               static_cast<utf8proc_ssize_t>(text.size()), &normalized,
                                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(normalized, &std::free);
  if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (length < 0) throw RunError(std::string("Unicode normalization failed: ") + utf8proc_errmsg(length));
  out.append(reinterpret_cast<const char*>(normalized), static_cast<size_t>(length));
}

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_word(char32_t c) {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:  // the joiners, and the circled and squared letters, which are alphabetic symbols
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
             (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  }
}

bool is_control(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t c) {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

bool is_nonspacing_mark(char32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_MN;
}

char32_t to_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::string to_nfd(std::string_view text) {
  std::string out;
  append_normalized(text, UTF8PROC_DECOMPOSE, out);
  return out;
}

std::string to_nfc(std::string_view text) {
  // Below U+0300 every code point is composed, a starter, and joins nothing before it. So text can be cut
  // before any of them, and only a stretch that holds others, together with the one before it, needs the
  // library.
  std::string out;
  out.reserve(text.size());
  size_t copied = 0, previous = 0, at = 0;
  while (at < text.size()) {
    const size_t here = at;
    if (next_code_point(text, at) < 0x300) {
      previous = here;
      continue;
    }
    size_t end = at;
    while (end < text.size()) {
      size_t after = end;
      if (next_code_point(text, after) < 0x300) break;
      end = after;
    }
    out.append(text.substr(copied, previous - copied));
    append_normalized(text.substr(previous, end - previous), UTF8PROC_COMPOSE, out);
    copied = previous = at = end;
  }
  out.append(text.substr(copied));
  return out;
}

}  // namespace hydrac::runtime
