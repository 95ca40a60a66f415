#include "runtime/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace hydrac::runtime {

namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// The length of the well-formed sequence at the front of `s`; 0 if it is malformed. `cut` is set if `s` ends
// within the sequence.
size_t sequence_length(std::string_view s, bool& cut) {
  cut = false;
  const auto lead = static_cast<unsigned char>(s[0]);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;  // what the second byte may be (Unicode's table 3-7)
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if ((lead & 0xF0) == 0xE0) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == s.size()) {
      cut = true;
      return 0;
    }
    const auto c = static_cast<unsigned char>(s[i]);
    if (i == 1 ? c < low || c > high : !is_continuation(s[i])) return 0;
  }
  return length;
}

}  // namespace

size_t utf8_length(std::string_view text) {
  bool cut = false;
  return text.empty() ? 0 : sequence_length(text, cut);
}

std::optional<size_t> find_malformed_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word = 0;
    if (text.size() - at >= 8) {
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    bool cut = false;
    const size_t length = sequence_length(text.substr(at), cut);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t lead = byte(0);
  char32_t c = lead;
  size_t length = 1;
  if (lead >= 0xF0) {
    c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    length = 4;
  } else if (lead >= 0xE0) {
    c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    length = 3;
  } else if (lead >= 0xC0) {
    c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    length = 2;
  }
  at += length;
  return c;
}

char32_t previous_code_point(std::string_view text, size_t at) {
  do {
    --at;
  } while (at > 0 && is_continuation(text[at]));
  return next_code_point(text, at);
}

void append_utf8(char32_t c, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

size_t complete_utf8_prefix(std::string_view bytes) {
  for (size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const size_t at = bytes.size() - back;
    if (is_continuation(bytes[at])) continue;
    bool cut = false;
    sequence_length(bytes.substr(at), cut);
    return cut ? at : bytes.size();
  }
  return bytes.size();
}

std::string replace_malformed_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t good = find_malformed_utf8(bytes).value_or(bytes.size());
    out.append(bytes.substr(0, good));
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    out += "\xEF\xBF\xBD";
    bytes.remove_prefix(1);
    while (!bytes.empty() && is_continuation(bytes[0])) bytes.remove_prefix(1);
  }
  return out;
}

}  // namespace hydrac::runtime
