// One tokenized corpus in the cache folder. Several processes may use the folder at once.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/data/token_shard.h"

namespace hydrac::runtime {

class TokenCache {
 public:
  using Notice = std::function<void(const std::string&)>;
  // The file for `key` in `folder`. `notice` (may be empty) hears one line for what the user should know.
  TokenCache(std::filesystem::path folder, uint64_t key, uint64_t fingerprint, Notice notice);

  // The stored tokens; nothing when there are none. A damaged file costs a notice and counts as none.
  std::optional<TokenShard> find() const;
  // Keeps other processes from the same work until the returned object dies; waits for one that is at it.
  // Null when the folder cannot be written to.
  std::shared_ptr<void> lock() const;
  // Stores ids of `width` bytes and maps them back; nothing, after a notice, when the folder cannot be
  // written to. With `locked` (lock() succeeded) it also removes what killed processes left behind.
  std::optional<TokenShard> store(std::string_view payload, int width, bool locked) const;

 private:
  void tell(const std::string& line) const;
  void remove_leftovers() const;

  std::filesystem::path folder_;
  std::filesystem::path file_;
  uint64_t key_;
  uint64_t fingerprint_;
  Notice notice_;
};

}  // namespace hydrac::runtime
