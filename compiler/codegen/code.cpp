#include "codegen/code.h"

namespace hydrac::codegen {

Code named(const std::string& name) {
  Code result(name);
  result.names.insert(name);
  return result;
}

Code joined(const std::vector<Code>& parts, std::string_view separator) {
  Code result;
  for (const Code& part : parts) {
    if (!result.empty()) result.text += separator;
    result.text += part.text;
    result.names.insert(part.names.begin(), part.names.end());
  }
  return result;
}

Code sum_of(const Code& a, const Code& b) {
  if (a.empty()) return b;
  return b.empty() ? a : code(Precedence::sum, "{} + {}", a, b);
}

Code within(const Code& part, Precedence least) {
  return part.precedence < least ? code("({})", part) : part;
}

Code parenthesized(const Code& part) {
  return part.text.find(' ') == std::string::npos ? part : code("({})", part);
}

}  // namespace hydrac::codegen
