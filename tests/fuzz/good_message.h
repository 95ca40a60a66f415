// What every message about a file must be, whatever the file holds.
#pragma once
#include <cstdlib>
#include <string>

#include "runtime/base/quote.h"
#include "runtime/error.h"

namespace hydrac::fuzz {

// Aborts where a terminal would act on it, or where it is a library's own text.
inline void require_good_message(const runtime::InputError& error) {
  const std::string message = error.what();
  const bool is_library_text = message.find("[json.exception") != std::string::npos;
  if (is_library_text || runtime::printable(message) != message) std::abort();
}

}  // namespace hydrac::fuzz
