#include "runtime/data/text_bytes.h"

#include <fmt/core.h>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes, what;
};

constexpr Signature kSignatures[] = {
    {"\x1f\x8b"sv, "compressed by gzip: unpack it with gunzip, or let the name of text or JSONL end in .gz"},
    {"\x28\xb5\x2f\xfd"sv,
     "compressed by zstd: unpack it with zstd -d, or let the name of text or JSONL end in .zst"},
    {"\xfd"
     "7zXZ\0"sv,
     "compressed by xz: unpack it with unxz"},
    {"BZh"sv, "compressed by bzip2: unpack it with bunzip2"},
    {"PK\x03\x04"sv, "a zip archive: unpack it with unzip"},
    {"PAR1"sv, "Parquet: let its name end in .parquet"},
    {"\xff\xfe"sv, "UTF-16: convert it with iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff"sv, "UTF-16: convert it with iconv -f UTF-16 -t UTF-8"},
};

}  // namespace

bool looks_gzipped(std::string_view bytes) {
  return bytes.starts_with(kSignatures[0].bytes);
}

bool looks_zstd(std::string_view bytes) {
  const bool is_skippable =
      bytes.size() >= 4 && (bytes[0] & 0xf0) == 0x50 && bytes.substr(1, 3) == "\x2a\x4d\x18";
  return is_skippable || bytes.starts_with(kSignatures[1].bytes);  // pzstd begins with a skippable frame
}

void require_text(std::string_view bytes, const std::string& shown_as, std::string_view wanted) {
  const size_t nul = bytes.find('\0');
  for (const Signature& signature : kSignatures) {
    // A text, too, may begin with letters.
    const bool letters = signature.bytes[0] >= 'A' && signature.bytes[0] <= 'Z';
    if (bytes.starts_with(signature.bytes) && (!letters || nul != std::string_view::npos))
      throw InputError(fmt::format("{}: it is {}", shown_as, signature.what));
  }
  if (nul == std::string_view::npos) return;
  throw InputError(
      fmt::format("{}: byte {} is NUL, so this is binary data or UTF-16, not {}", shown_as, nul, wanted));
}

}  // namespace hydrac::runtime
