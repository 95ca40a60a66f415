#include "diag/utf8.h"

namespace hydrac::diag {
namespace {

struct Form {
  size_t length;
  unsigned smallest;  // code points below it must be written shorter
};

Form form_of(unsigned char first) {
  if (first < 0x80) return {1, 0};
  if (first >= 0xc2 && first <= 0xdf) return {2, 0x80};
  if (first >= 0xe0 && first <= 0xef) return {3, 0x800};
  if (first >= 0xf0 && first <= 0xf4) return {4, 0x10000};
  return {0, 0};
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  const Form form = form_of(first);
  if (form.length <= 1) return form.length;
  if (text.size() < form.length) return 0;
  unsigned code = first & (0x7fu >> form.length);
  for (size_t i = 1; i < form.length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < form.smallest || surrogate || code > 0x10ffff ? 0 : form.length;
}

size_t utf8_error(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

}  // namespace hydrac::diag
