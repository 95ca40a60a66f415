// Ends a text before the first of several strings, which may come in pieces.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::runtime {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  // Adds the next piece of the text. Returns the text that certainly precedes any stop string; a possible
  // beginning of one is held back. `is_shown`: false for a special token, which a stop string may name and
  // which is never returned.
  std::string push(std::string_view piece, bool is_shown = true);
  // Held-back text, once nothing follows; empty if the text has stopped.
  std::string finish();
  bool stopped() const { return stopped_; }
  // True if one of them holds `token`, so that a special token must be pushed.
  bool name(std::string_view token) const;

 private:
  // Bytes at the end of `held_` that a stop string may begin with.
  size_t begun() const;
  // The shown ones of the first `bytes` that are held; they are held no longer.
  std::string release(size_t bytes);

  std::vector<std::string> strings_;
  std::string held_;
  std::vector<bool> is_shown_;  // of each byte held
  bool stopped_ = false;
};

}  // namespace hydrac::runtime
