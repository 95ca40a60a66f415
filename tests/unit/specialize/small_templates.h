// Templates of some lines, specialized for an entry or two.
#pragma once
#include <string>

#include "specialize/specialize.h"
#include "tests/unit/specialize/whole_text.h"

namespace hydrac::specialize::test {

// `header` in the templates' namespace, and an entry that includes it.
inline SpecializeRequest request(const std::string& header, const std::string& entry,
                                 Dialect dialect = Dialect::cuda) {
  SpecializeRequest request;
  request.entries = {{"entry.cu", "#include \"lib.h\"\n" + entry}};
  request.headers = {
      {"lib.h", "#pragma once\nnamespace hydrac::cuda {\n" + header + "}  // namespace hydrac::cuda\n"}};
  request.library = {};
  request.dialect = dialect;
  request.scope = "hydrac::made";
  return request;
}

// What stands in the namespace, and the entry behind it.
inline std::string specialized(const std::string& header, const std::string& entry,
                               Dialect dialect = Dialect::cuda) {
  const std::string text = whole_text(request(header, entry, dialect));
  const std::string begin = "namespace hydrac::made {\n\n", end = "}  // namespace hydrac::made\n\n";
  std::string result = text.substr(text.find(begin) + begin.size());
  return result.erase(result.find(end), end.size());
}

}  // namespace hydrac::specialize::test
