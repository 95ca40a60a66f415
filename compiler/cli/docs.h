// The pages of docs/, inside the binary.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::cli {

struct DocsPage {
  const char* path;  // "data.md", within docs/
  const char* text;
};
const std::vector<DocsPage>& docs_pages();

// A page's name on the command line: "data" for "data.md" or "docs/data.md".
std::string docs_name(std::string_view path);

}  // namespace hydrac::cli
