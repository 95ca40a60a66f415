#include "runtime/train/console.h"

#include "runtime/log/output.h"

namespace hydrac::runtime {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_control(unsigned char c) {
  return (c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f;
}

// U+0080 to U+009F, which terminals may act on as they do on ESC sequences.
bool is_c1_control(std::string_view text, size_t at) {
  return text[at] == '\xC2' && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xa0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_c1_control(text, i)) {
      out += replacement;
      ++i;
    } else if (is_control(static_cast<unsigned char>(text[i]))) {
      out += replacement;
    } else {
      out += text[i];
    }
  }
  return out;
}

void Console::text(std::string_view text) {
  if (quiet_) return;
  progress_.finish();
  print_text(out_, printable(text));
}

}  // namespace hydrac::runtime
