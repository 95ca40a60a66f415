// Any bytes as a JSONL file, as a JSON array, and as text that gzip compressed: documents of UTF-8 text, or
// an InputError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/base/utf8.h"
#include "runtime/text/documents.h"
#include "runtime/text/unpack.h"
#include "tests/fuzz/good_message.h"

namespace {

using namespace hydrac::runtime;

void read(SourceKind kind, std::string_view bytes) {
  const std::string name = "fuzz";
  int64_t line = 0;
  try {
    for_each_document_of(name, kind, bytes, "text", [&](const Document& document) {
      if (document.text.empty() || document.line <= line || find_malformed_utf8(document.text)) std::abort();
      line = document.line;
    });
  } catch (const InputError& error) {
    hydrac::fuzz::require_good_message(error);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read(SourceKind::jsonl, bytes);
  read(SourceKind::json, bytes);
  try {
    const Packing by = bytes.starts_with('\x1f') ? Packing::gzip : Packing::zstd;
    if (by == Packing::gzip || bytes.starts_with('\x28'))
      read(SourceKind::jsonl, unpacked(by, bytes, "fuzz", 1 << 24));
  } catch (const InputError& error) {
    hydrac::fuzz::require_good_message(error);
  }
  return 0;
}
