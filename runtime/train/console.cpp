#include "runtime/train/console.h"

#include "runtime/base/quote.h"
#include "runtime/log/output.h"

namespace hydrac::runtime {

void Console::text(std::string_view text) {
  if (quiet_) return;
  progress_.finish();
  print_text(out_, printable(text));
}

}  // namespace hydrac::runtime
