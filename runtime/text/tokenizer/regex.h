// Regular expressions as Hugging Face tokenizers mean them: Oniguruma's Ruby syntax, run by PCRE2's JIT.
// Only what both read alike (after a few rewritings) is accepted; the rest is an error, never a near miss.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hydrac::runtime {

// Rewrites a pattern of Ruby syntax to one that PCRE2 reads alike. Throws InputError naming what it cannot.
std::string ruby_to_pcre2(std::string_view pattern, const std::string& shown_as);

// Immutable; one may be used by several threads, each with a Scratch of its own.
class Regex {
 public:
  struct Match {
    size_t begin;
    size_t end;
  };
  // Working memory of one thread.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;

   private:
    friend class Regex;
    struct Memory;
    std::unique_ptr<Memory> memory_;
  };

  // Throws InputError for a pattern that is malformed, too large, or that ruby_to_pcre2() refuses.
  Regex(std::string_view ruby_pattern, const std::string& shown_as);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // The leftmost match at or after `from`. `text` must be well-formed UTF-8 and `from` the start of a
  // character in it. Throws InputError when the search exceeds its step or memory limit.
  std::optional<Match> find(std::string_view text, size_t from, Scratch& scratch) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::string shown_as_;
};

}  // namespace hydrac::runtime
