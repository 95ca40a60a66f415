// Feeds arbitrary text to the reader of lock files. A lock file that is read must print to text that is read
// as the same one, because `hydrac tune` writes the sections of other machines again; and lies over a spec
// without a crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tune/lock_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hydrac;
  const std::string text(reinterpret_cast<const char*>(data), size);
  diag::Diagnostics diagnostics;
  const auto lock = tune::parse_lock("fuzz.lock.yaml", text, diagnostics);
  (void)diagnostics.render();
  if (lock.has_value() == diagnostics.has_errors()) std::abort();
  if (!lock) return 0;
  const std::string printed = to_yaml(*lock, "fuzz.yaml");
  diag::Diagnostics again_diagnostics;
  const auto again = tune::parse_lock("again.lock.yaml", printed, again_diagnostics);
  if (!again || to_yaml(*again, "fuzz.yaml") != printed) std::abort();
  for (const tune::LockSection& section : lock->sections) (void)as_spec(section);
  return 0;
}
