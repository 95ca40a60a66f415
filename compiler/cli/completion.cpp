// `hydrac completion SHELL` prints a script for the shell. The script asks `hydrac completion words` for the
// words that may stand at the cursor: verbs, a verb's options, keys of the spec, values of a key.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/docs.h"
#include "cli/verb.h"
#include "runtime/error.h"
#include "spec/keys/key_table.h"
#include "spec/keys/schema.h"

namespace hydrac::cli {

namespace {

using Words = std::vector<std::string>;

// Readline replaces only the text after the last "=".
constexpr const char* kBash = R"sh(_hydrac() {
  local line=${COMP_LINE:0:COMP_POINT} word
  word=${line##*[[:space:]]}
  mapfile -t COMPREPLY < <(hydrac completion words --word "$word" -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
  case $word in
    *=*) COMPREPLY=("${COMPREPLY[@]#*=}") ;;
    -*) ;;
    *) COMPREPLY+=($(compgen -f -- "$word")) ;;
  esac
  [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
}
complete -o default -F _hydrac hydrac
)sh";

constexpr const char* kZsh = R"sh(#compdef hydrac
_hydrac() {
  local -a found
  found=(${(f)"$(hydrac completion words --word "$PREFIX" -- "${(@)words[2,CURRENT-1]}" 2>/dev/null)"})
  compadd -S '' -- ${(M)found:#*=}
  compadd -- ${found:#*=}
  [[ $PREFIX == *=* || $PREFIX == -* ]] || _files
}
compdef _hydrac hydrac
)sh";

constexpr const char* kFish =
    R"sh(complete -c hydrac -a '(hydrac completion words --word (commandline -ct) -- (commandline -opc)[2..] 2>/dev/null)'
)sh";

Words options_of(const Verb& verb) {
  Words options = {"--help"};
  for (const Option& option : verb.options) options.push_back(long_name(option));
  return options;
}

void add_values(const nlohmann::json& type, Words& values) {
  if (type.value("type", "") == "boolean") values.insert(values.end(), {"true", "false"});
  for (const auto& value : type.value("enum", nlohmann::json::array()))
    values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  for (const auto& choice : type.value("anyOf", nlohmann::json::array())) add_values(choice, values);
}

// "key=value" for each word that the key takes.
Words values_of(const std::string& key) {
  if (!spec::find_key(key)) return {};
  nlohmann::json type = nlohmann::json::parse(spec::json_schema());
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    type = nlohmann::json(type.at("properties").at(key.substr(begin, end - begin)));
    begin = end + 1;
  }
  Words values;
  add_values(type, values);
  for (std::string& value : values) value = key + "=" + value;
  return values;
}

Words first_words() {
  Words words;
  for (const Verb& verb : verbs()) words.emplace_back(verb.name.substr(0, verb.name.find(' ')));
  std::ranges::sort(words);
  words.erase(std::ranges::unique(words).begin(), words.end());
  return words;
}

Words candidates(Words before, const std::string& word) {
  if (before.empty()) return first_words();
  const Verb* verb = take_verb(before);
  if (!verb && before.size() == 1)
    if (const Words seconds = second_words(before[0]); !seconds.empty()) return seconds;
  if (!verb && looks_like_spec(before[0])) verb = &verbs().front();  // `hydrac SPEC` runs
  if (!verb) return {};
  if (word.starts_with("-")) return options_of(*verb);
  if (verb->name == "docs" && before.empty()) {
    Words pages;
    for (const DocsPage& page : docs_pages()) pages.push_back(docs_name(page.path));
    return pages;
  }
  if (verb->usage.find("key=value") == std::string_view::npos) return {};
  if (const size_t equals = word.find('='); equals != std::string::npos)
    return values_of(word.substr(0, equals));
  Words found;
  for (const spec::KeyRow& row : spec::key_rows()) found.push_back(row.path + "=");
  return found;
}

}  // namespace

int completion_verb(const Arguments& arguments) {
  const std::string shell = arguments.positional.empty() ? "" : arguments.positional[0];
  if (shell == "bash" || shell == "zsh" || shell == "fish") {
    fmt::print("{}", shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
    return kFine;
  }
  if (shell != "words") throw runtime::InputError("completion takes a shell: bash, zsh or fish");
  const std::string word = arguments.value("--word").value_or("");
  for (const std::string& candidate :
       candidates({arguments.positional.begin() + 1, arguments.positional.end()}, word))
    if (candidate.starts_with(word)) fmt::print("{}\n", candidate);
  return kFine;
}

}  // namespace hydrac::cli
