// Feeds arbitrary text to the spec loader. A spec that loads must print to text that loads to the same spec.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "spec/load.h"
#include "spec/print.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hydrac;
  // The first line is an override, the rest the spec; file names in either must not lead to real files, nor
  // to Hugging Face's hub.
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t line = input.find('\n');
  const std::string text = line == std::string::npos ? input : input.substr(line + 1);
  if (input.find("extends") != std::string::npos || input.find("from") != std::string::npos) return 0;
  if (input.find("hf:") != std::string::npos) return 0;
  if (input.find("cpp") != std::string::npos && input.find("text") == std::string::npos) return 0;

  diag::Diagnostics diagnostics;
  std::vector<std::string> overrides;
  if (line != std::string::npos && line > 0) overrides.push_back(input.substr(0, line));
  const auto spec = spec::load_spec_text("fuzz.yaml", text, overrides, diagnostics);
  (void)diagnostics.render();
  if (spec.has_value() == diagnostics.has_errors()) std::abort();
  if (!spec) return 0;

  diag::Diagnostics again_diagnostics;
  const auto again = spec::load_spec_text("again.yaml", spec::to_yaml(*spec), {}, again_diagnostics);
  // Only who types the command may write outside the working folder, so such a spec cannot come back from a
  // file.
  const bool left_folder =
      spec->where("output.dir").on_command_line() || spec->where("data.cache_dir").on_command_line();
  if (!left_folder && (!again || *again != *spec)) std::abort();
  return 0;
}
