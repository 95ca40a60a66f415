#include "emit/kernels/repeated_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <sstream>

namespace hydrac::emit {

namespace {

// The name that `constexpr cuda::EmbeddingGradient kGradient{...};` defines; "" for other text.
std::string defined_name(const std::string& definition) {
  static const std::regex constant(R"(constexpr [\w:]+ (\w+)[^\w])");
  std::smatch match;
  const bool found = std::regex_search(definition, match, constant, std::regex_constants::match_continuous);
  return found ? match[1].str() : "";
}

bool is_definition(const std::string& statement) {
  return std::ranges::count(statement, '\n') > 1 && !defined_name(statement).empty();
}

}  // namespace

std::string RepeatedConstants::take(const std::string& kernel, const std::string& text) {
  const std::string space = kernel + "_sizes", opening = fmt::format("namespace {} {{\n", space);
  const size_t begin = text.find(opening), end = text.find(fmt::format("}}  // namespace {}\n", space));
  if (begin == std::string::npos || end == std::string::npos) return text;
  const size_t first = begin + opening.size();
  std::string constants, statement;
  std::istringstream lines(text.substr(first, end - first));
  for (std::string line; std::getline(lines, line);) {
    statement += line + "\n";
    if (line.substr(0, line.find("  //")).ends_with(",")) continue;
    if (is_definition(statement)) {
      const std::string name = defined_name(statement);
      const auto [found, is_new] = names_.try_emplace(statement, fmt::format("{}::{}", space, name));
      if (!is_new) statement = fmt::format("using {};\n", found->second);
    }
    constants += statement;
    statement.clear();
  }
  return text.substr(0, first) + constants + statement + text.substr(end);
}

}  // namespace hydrac::emit
