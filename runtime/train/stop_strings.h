// Ends a text before the first of several strings, which may come in pieces.
#pragma once
#include <string>
#include <vector>

namespace hydrac::runtime {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  // The next piece of the text. Returns what is certain to be before any stop string; what may be the
  // beginning of one is held back.
  std::string push(const std::string& piece);
  // What was held back, once nothing follows; nothing where the text has stopped.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  // Bytes at the end of `held_` that a stop string may begin with.
  size_t begun() const;

  std::vector<std::string> strings_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace hydrac::runtime
