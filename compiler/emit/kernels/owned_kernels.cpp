#include "emit/kernels/owned_kernels.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <regex>
#include <sstream>
#include <vector>

#include "emit/hooks.h"

namespace hydrac::emit {

namespace {

constexpr const char* kDeclarations = "kernels/kernels.h";

struct KernelSignature {
  std::string name;
  std::vector<std::string> parameters;  // "const bf16* q"
};

std::string without_comments(const std::string& code) {
  static const std::regex comment(R"(//[^\n]*|/\*[^]*?\*/)");
  return std::regex_replace(code, comment, "");
}

// Single spaces, and none before `*`, `&`, `,` and `)`.
std::string tidy(const std::string& code) {
  std::string text;
  for (char c : code) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) c = ' ';
    if (c == ' ' && (text.empty() || text.back() == ' ')) continue;
    if ((c == '*' || c == '&' || c == ',') && !text.empty() && text.back() == ' ') text.pop_back();
    text += c;
  }
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// "const bf16*" of "const bf16* q". A parameter without a name is its own type.
std::string type_of(const std::string& parameter) {
  static const std::regex named(R"((.*[\*&\s])\s*[A-Za-z_]\w*)");
  std::smatch match;
  return std::regex_match(parameter, match, named) ? tidy(match[1]) : parameter;
}

// The function whose name starts at `at`, if a list of parameters and then `after` follow.
std::optional<KernelSignature> signature_at(const std::string& code, size_t at, char after) {
  size_t open = at;
  while (open < code.size() &&
         (std::isalnum(static_cast<unsigned char>(code[open])) != 0 || code[open] == '_'))
    ++open;
  KernelSignature found{code.substr(at, open - at), {}};
  while (open < code.size() && std::isspace(static_cast<unsigned char>(code[open])) != 0) ++open;
  if (open == code.size() || code[open] != '(') return std::nullopt;
  std::string parameter;
  int depth = 0;
  for (size_t i = open + 1; i < code.size(); ++i) {
    const char c = code[i];
    const bool ends = c == ')' && depth == 0;
    if ((c == ',' && depth == 0) || ends) {
      if (!tidy(parameter).empty()) found.parameters.push_back(tidy(parameter));
      parameter.clear();
    } else {
      parameter += c;
    }
    if (ends) {
      const size_t next = code.find_first_not_of(" \t\r\n", i + 1);
      return next != std::string::npos && code[next] == after ? std::optional(found) : std::nullopt;
    }
    depth += (c == '(' || c == '<') - (c == ')' || c == '>');
  }
  return std::nullopt;
}

// All that follow "void " and end as `after` says: ';' for declarations, '{' for definitions.
std::vector<KernelSignature> signatures(const std::string& code, char after) {
  static const std::regex result(R"(\bvoid\s+(?=[A-Za-z_]))");
  std::vector<KernelSignature> found;
  for (auto i = std::sregex_iterator(code.begin(), code.end(), result); i != std::sregex_iterator(); ++i) {
    const size_t at = static_cast<size_t>(i->position()) + static_cast<size_t>(i->length());
    if (auto signature = signature_at(code, at, after)) found.push_back(std::move(*signature));
  }
  return found;
}

// All of hooks.h, or those of kernels.h under "// ---- block.cu".
std::optional<std::vector<KernelSignature>> declared_of(const std::string& name, const Files& files) {
  if (is_hooks_file(name) && files.contains(name))
    return signatures(without_comments(files.at(kHooksHeader)), ';');
  const auto header = files.find(kDeclarations);
  if (header == files.end()) return std::nullopt;
  const std::string title = "// ---- " + name.substr(name.find('/') + 1) + "\n";
  const size_t begin = header->second.find(title);
  if (begin == std::string::npos) return std::nullopt;
  const size_t end = header->second.find("// ---- ", begin + title.size());
  return signatures(without_comments(header->second.substr(begin, end - begin)), ';');
}

std::vector<std::string> types_of(const KernelSignature& signature) {
  std::vector<std::string> types;
  for (const std::string& parameter : signature.parameters) types.push_back(type_of(parameter));
  return types;
}

std::string text_of(const KernelSignature& s) {
  return fmt::format("void {}({})", s.name, fmt::join(s.parameters, ", "));
}

}  // namespace

bool is_kept(const std::string& name, const std::string& text) {
  if (is_hooks_file(name)) return true;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line == kKeepLine) return true;
  }
  return false;
}

std::string obstacle_to_keep(const std::string& name, const std::string& text, const Files& files) {
  const auto declared = declared_of(name, files);
  if (!declared) {
    return fmt::format(
        "the program of this spec has no kernels in a file of that name, and only files that {} lists can be "
        "kept",
        kDeclarations);
  }
  const std::vector<KernelSignature> defined = signatures(without_comments(text), '{');
  for (const KernelSignature& needed : *declared) {
    const KernelSignature* same_name = nullptr;
    bool is_there = false;
    for (const KernelSignature& one : defined) {
      if (one.name != needed.name) continue;
      same_name = &one;
      is_there = is_there || types_of(one) == types_of(needed);
    }
    if (is_there) continue;
    return fmt::format("the program calls another function than it defines\n  called:  {}\n  defined: {}",
                       text_of(needed), same_name == nullptr ? "none of that name" : text_of(*same_name));
  }
  return "";
}

}  // namespace hydrac::emit
