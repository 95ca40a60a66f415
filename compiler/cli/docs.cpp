// `hydrac docs [PAGE]`: the pages of docs/ of this very hydrac, for readers without the repository.
#include "cli/docs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "cli/verb.h"
#include "diag/suggest.h"
#include "runtime/error.h"

namespace hydrac::cli {

namespace {

constexpr const char* kIndex = "README";  // pages by question

}  // namespace

std::string docs_name(std::string_view path) {
  const std::string_view folder = "docs/", ending = ".md";
  if (path.starts_with(folder)) path.remove_prefix(folder.size());
  if (path.ends_with(ending)) path.remove_suffix(ending.size());
  return std::string(path);
}

int docs_verb(const Arguments& arguments) {
  if (arguments.positional.size() > 1)
    throw runtime::InputError(
        fmt::format("docs prints one page: \"{}\" is one argument too many", arguments.positional[1]));
  const std::string wanted = arguments.positional.empty() ? kIndex : docs_name(arguments.positional[0]);
  std::vector<std::string> names;
  for (const DocsPage& page : docs_pages()) names.push_back(docs_name(page.path));
  const auto found = std::ranges::find(names, wanted);
  if (found == names.end()) {
    const std::string near = diag::nearest(wanted, names);
    throw runtime::InputError(fmt::format("there is no page {}{}; `hydrac docs` lists them by question",
                                          wanted, near.empty() ? "" : fmt::format(": {} is nearest", near)));
  }
  fmt::print("{}", docs_pages()[static_cast<size_t>(found - names.begin())].text);
  return kFine;
}

}  // namespace hydrac::cli
