// Cuts text into the pieces that BPE merges within, as a tokenizer.json's pre_tokenizer says.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "runtime/text/tokenizer/regex.h"

namespace hydrac::runtime {

// Fate of a delimiter that a pattern found (Hugging Face's SplitDelimiterBehavior).
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

class PreTokenizer {
 public:
  PreTokenizer() = default;  // a text is one piece
  // `config`: the value of "pre_tokenizer": ByteLevel, or a Sequence of Split and Digits that ends with
  // ByteLevel. Throws InputError naming anything else.
  PreTokenizer(const nlohmann::json& config, const std::string& shown_as);

  // Calls sink(std::string_view piece) for each piece in order, none of them empty. The views die with the
  // call. `text` must be well-formed UTF-8.
  template <typename Sink>
  void split(std::string_view text, Regex::Scratch& scratch, Sink&& sink) const {
    run(0, text, scratch, SinkRef{&sink, [](void* target, std::string_view piece) {
                                    (*static_cast<std::remove_reference_t<Sink>*>(target))(piece);
                                  }});
  }

 private:
  struct SinkRef {
    void* target;
    void (*call)(void*, std::string_view);
  };
  struct Split {
    std::variant<Regex, std::string> pattern;
    SplitBehavior behavior;
    bool invert;
  };
  struct PrefixSpace {};  // puts a space before a piece that begins with none
  using Stage = std::variant<Split, PrefixSpace>;

  void add_stage(const nlohmann::json& config, const std::string& shown_as, bool last);
  void add_split(const nlohmann::json& config, const std::string& shown_as);
  void add_byte_level(const nlohmann::json& config, const std::string& shown_as);
  void run(size_t stage, std::string_view text, Regex::Scratch& scratch, SinkRef sink) const;
  template <typename Emit>
  static void apply(const Split& split, std::string_view text, Regex::Scratch& scratch, Emit&& emit);

  std::vector<Stage> stages_;
};

}  // namespace hydrac::runtime
