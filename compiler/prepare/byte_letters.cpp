#include "prepare/byte_letters.h"

#include <array>

#include "runtime/base/utf8.h"

namespace hydrac::prepare {

namespace {

bool prints(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

}  // namespace

const std::vector<std::string>& byte_letters() {
  static const std::vector<std::string> letters = [] {
    std::vector<std::string> list;
    for (const bool printable : {true, false}) {
      for (int byte = 0; byte < 256; ++byte) {
        if (prints(byte) == printable)
          list.emplace_back(1, static_cast<char>(static_cast<unsigned char>(byte)));
      }
    }
    return list;
  }();
  return letters;
}

std::string in_letters(std::string_view bytes) {
  static const std::array<char32_t, 256> letters = [] {
    std::array<char32_t, 256> table{};
    char32_t next = 256;
    for (size_t byte = 0; byte < table.size(); ++byte)
      table[byte] = prints(static_cast<int>(byte)) ? static_cast<char32_t>(byte) : next++;
    return table;
  }();
  std::string text;
  for (const char byte : bytes) runtime::append_utf8(letters[static_cast<unsigned char>(byte)], text);
  return text;
}

}  // namespace hydrac::prepare
