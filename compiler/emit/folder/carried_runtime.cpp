#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

#include "emit/folder/runtime_files.h"
#include "emit/source_file.h"
#include "targets/templates/templates.h"

namespace hydrac::emit {

namespace {

namespace fs = std::filesystem;

std::string with_provenance(const std::string& path, const std::string& text) {
  const bool cmake = path.ends_with(".txt") || path.ends_with(".cmake");
  return std::string(cmake ? "# " : "// ") + kProvenance + "its runtime. DO NOT EDIT.\n" + text;
}

Files all_files() {
  Files files;
  for (const RuntimeFile& file : runtime_files()) files[std::string("runtime/") + file.path] = file.text;
  for (const targets::TemplateFile& file : targets::template_files())
    files[std::string("templates/") + file.path] = file.text;
  return files;
}

// The includes of a file in quotes, in their order.
std::vector<std::string> includes_of(const std::string& text) {
  constexpr std::string_view kInclude = "#include \"";
  std::vector<std::string> includes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kInclude))
      includes.push_back(line.substr(kInclude.size(), line.rfind('"') - kInclude.size()));
  }
  return includes;
}

class Reach {
 public:
  Reach() : files_(all_files()) {
    for (const auto& [path, text] : files_) {
      if (!path.ends_with(".cpp")) continue;
      for (const std::string& header : headers_of(path, text)) sources_.emplace(header, path);
    }
  }

  void add(const std::string& path) {
    const auto found = files_.find(path);
    if (found == files_.end() || !reached_.emplace(path, with_provenance(path, found->second)).second) return;
    add_included(found->second);
    const auto [first, last] = sources_.equal_range(path);
    for (auto source = first; source != last; ++source) add(source->second);
    for (fs::path folder = fs::path(path).parent_path(); !folder.empty(); folder = folder.parent_path())
      add(folder / "CMakeLists.txt");  // a part of a folder is built by that
  }

  void add_included(const std::string& text) {
    for (const std::string& include : includes_of(text)) add(located(include));
  }

  Files take() { return std::move(reached_); }

 private:
  // The headers that a source may implement: that of its name, else those of its folder that it includes.
  std::vector<std::string> headers_of(const std::string& path, const std::string& text) const {
    const std::string own = fs::path(path).replace_extension(".h");
    if (files_.contains(own)) return {own};
    std::vector<std::string> headers;
    for (const std::string& include : includes_of(text)) {
      if (fs::path(include).parent_path() == fs::path(path).parent_path()) headers.push_back(include);
    }
    return headers;
  }

  // The roots of includes are runtime's parent, templates/ and templates/include.
  std::string located(const std::string& include) const {
    for (const char* root : {"", "templates/", "templates/include/"}) {
      if (files_.contains(root + include)) return root + include;
    }
    return include;  // none of these
  }

  const Files files_;
  std::multimap<std::string, std::string> sources_;  // by header
  Files reached_;
};

}  // namespace

Files carried_runtime(const Files& program) {
  Reach reach;
  for (const auto& [path, text] : program) reach.add_included(text);
  for (const char* path : {"runtime/CMakeLists.txt", "runtime/cmake/HydracRuntime.cmake",
                           "runtime/cmake/hydrac-runtime-config.cmake", "runtime/smoke_test/smoke_test.cpp"})
    reach.add(path);
  return reach.take();
}

}  // namespace hydrac::emit
