// Any bytes as a tokenizer file: either an InputError, or a tokenizer whose members hold what tokenizer.h and
// wordpiece.h say.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/text/tokenizers.h"
#include "runtime/text/wordpiece.h"
#include "tests/fuzz/good_message.h"

namespace {

using hydrac::runtime::InputError;
using hydrac::runtime::Tokenizer;

constexpr std::string_view kText =
    "Don't  stop, it'S 12345 ½\r\n\n\tna\xC3\xAFve cafe\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x99\x82 "
    "<|endoftext|>a b ab ";

void require(bool holds) {
  if (!holds) std::abort();
}

void use(const Tokenizer& tokenizer) {
  require(tokenizer.vocab_size() > 0);
  for (const int32_t id : tokenizer.encode(kText)) {
    require(id >= 0 && id < tokenizer.vocab_size());
    tokenizer.token_bytes(id);
  }
  if (const auto end = tokenizer.end_of_text()) require(*end >= 0 && *end < tokenizer.vocab_size());
}

void use_as_wordpiece(std::string_view file) {
  constexpr int64_t most = 8;
  const auto tokenizer = hydrac::runtime::parse_wordpiece(file, "fuzz");
  const auto ids = tokenizer.encode(kText, most);
  require(ids.size() >= 2 && ids.size() <= most);
  for (const int32_t id : ids) require(id >= 0 && id < tokenizer.vocab_size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = hydrac::runtime::parse_tokenizer(file, "fuzz");
    const auto copy = hydrac::runtime::parse_tokenizer(tokenizer->to_json(), "copy");
    require(copy->fingerprint() == tokenizer->fingerprint());
    use(*tokenizer);
  } catch (const InputError& error) {  // the only error that a file may cause
    hydrac::fuzz::require_good_message(error);
  }
  try {
    use_as_wordpiece(file);
  } catch (const InputError& error) {
    hydrac::fuzz::require_good_message(error);
  }
  return 0;
}
