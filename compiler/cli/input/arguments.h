// A verb's command line: positional arguments, `key.path=value` overrides of the spec, and options.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hydrac::cli {

struct Option {
  std::string name;   // "--dump"; a short form may follow: "--quiet,-q"
  std::string value;  // what it takes ("DIR"), empty for a switch
  std::string help;
  std::string word = "";  // the one value that a switch may be given: --resume auto
  bool repeats = false;   // given several times: its values, with commas between them; else the last one
};

// The name without its short form.
std::string long_name(const Option& option);

struct Arguments {
  std::vector<std::string> positional;
  std::vector<std::string> overrides;
  std::map<std::string, std::string> options;  // by long name; a switch has the value "", or its word

  bool has(const std::string& option) const { return options.contains(option); }
  std::optional<std::string> value(const std::string& option) const;
  // Whole numbers; runtime::InputError for anything else.
  int64_t number(const std::string& option, int64_t fallback) const;
  // The same, and 0 is refused too.
  int64_t count(const std::string& option, int64_t fallback) const;
};

// Throws runtime::InputError for an option that the verb does not have (with the nearest one it has), or one
// without its value. After "--" no argument is an option, whatever it begins with.
Arguments parse_arguments(const std::vector<std::string>& words, const std::vector<Option>& options);

}  // namespace hydrac::cli
