// The files of templates/ as they were when hydrac was built.
#pragma once
#include <string>
#include <vector>

namespace hydrac::targets {

struct TemplateFile {
  const char* path;  // relative to templates/
  const char* text;
};
const std::vector<TemplateFile>& template_files();

}  // namespace hydrac::targets
