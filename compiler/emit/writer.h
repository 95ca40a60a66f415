// Indented source text.
#pragma once
#include <string>

namespace hydrac::emit {

class Writer {
 public:
  explicit Writer(size_t indent = 0) : indent_(indent) {}

  void line(const std::string& text) {
    if (!text.empty() && text[0] != '#' && text[0] != '\n') text_.append(indent_ * 2, ' ');
    text_ += text + "\n";
  }
  void open(const std::string& text) {
    line(text);
    ++indent_;
  }
  void close(const std::string& text = "}") {
    --indent_;
    line(text);
  }
  // Before a line that closes one block and opens the next.
  void outdent() { --indent_; }
  // Text that is indented already.
  void append(const std::string& text) { text_ += text; }

  size_t indent() const { return indent_; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  size_t indent_ = 0;
};

}  // namespace hydrac::emit
