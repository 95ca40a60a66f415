// A chat template's Jinja in a form that layout, quotes and names of loop variables do not change, so that
// templates which are written differently compare equal. Nothing is run.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::spec {

struct JinjaPart {
  enum class Kind {
    text,      // what is written as it stands
    output,    // an expression whose value is written
    statement  // for, if, set, ...
  };
  Kind kind;
  std::string text;  // of an expression or statement its tokens, with a space between two
  bool operator==(const JinjaPart&) const = default;
};

// `names`: variables that stand for text, such as bos_token. Blocks that write a generation prompt are left
// out, as apply_chat_template leaves them out in training, and those that only raise exceptions. Whitespace
// is treated as transformers has Jinja treat it (trim_blocks, lstrip_blocks).
std::vector<JinjaPart> jinja_form(std::string_view source, const std::map<std::string, std::string>& names);

}  // namespace hydrac::spec
