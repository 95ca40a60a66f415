#include <filesystem>

#include "emit/runtime_files.h"
#include "emit/source_file.h"
#include "targets/templates/templates.h"

namespace hydrac::emit {

namespace {

std::string with_provenance(const std::string& path, const std::string& text) {
  const bool cmake = path.ends_with(".txt") || path.ends_with(".cmake");
  return std::string(cmake ? "# " : "// ") + kProvenance + "its runtime. DO NOT EDIT.\n" + text;
}

}  // namespace

Files carried_runtime() {
  Files files;
  for (const RuntimeFile& file : runtime_files()) {
    const std::string path = std::string("runtime/") + file.path;
    files[path] = with_provenance(path, file.text);
  }
  for (const targets::TemplateFile& file : targets::template_files()) {
    const std::string path = std::string("templates/") + file.path;
    files[path] = with_provenance(path, file.text);
  }
  return files;
}

}  // namespace hydrac::emit
