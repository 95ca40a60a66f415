// Any bytes as a tokenizer file: either an InputError, or a tokenizer whose members hold what tokenizer.h and
// wordpiece.h say.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/tokenizer/tokenizers.h"
#include "runtime/text/tokenizer/wordpiece.h"
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
  const auto is_token = [&](int32_t id) { return id >= 0 && id < tokenizer.vocab_size(); };
  require(std::ranges::all_of(tokenizer.encode_prompt(kText), is_token));
  require(std::ranges::all_of(tokenizer.end_tokens().all, is_token));
  if (const auto end = tokenizer.end_of_text()) require(tokenizer.end_tokens().contains(*end));
  std::vector<int32_t> ids;
  std::vector<hydrac::runtime::IdsAt> at;
  const size_t places[] = {0, 7, kText.size()};
  tokenizer.encode_at(kText, places, ids, at);
  require(ids == tokenizer.encode(kText) && at.size() == std::size(places));
  for (const auto& [ended, begun] : at) require(ended <= begun && begun <= ids.size());
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
