#include "runtime/encoder/open_encoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>

#include "runtime/error.h"
#include "runtime/text/tokenizer/wordpiece.h"
#include "runtime/train/initial_weights.h"

namespace hydrac::runtime {

namespace {

constexpr const char* kNothing = "null";

std::string value_in(const std::vector<EncoderFact>& facts, const EncoderFact& like) {
  const auto found = std::ranges::find_if(
      facts, [&](const EncoderFact& fact) { return fact.file == like.file && fact.key == like.key; });
  return found == facts.end() ? kNothing : found->value;
}

void require_facts(const EncoderFolder& made_for) {
  const std::vector<EncoderFact> found = encoder_facts(made_for.folder);
  const auto require = [&](const EncoderFact& fact) {
    const std::string here = value_in(found, fact), there = value_in(made_for.facts, fact);
    if (here == there) return;
    const auto said = [](const std::string& value) { return value == kNothing ? "nothing" : value; };
    throw InputError(fmt::format("{}: {} is {} here, and {} in the encoder that the program was made for",
                                 (made_for.folder / fact.file).generic_string(), fact.key, said(here),
                                 said(there)));
  };
  for (const EncoderFact& fact : made_for.facts) require(fact);
  for (const EncoderFact& fact : found) require(fact);
}

}  // namespace

OpenedEncoder open_encoder(const EncoderFolder& made_for) {
  const std::string folder = made_for.folder.generic_string();
  std::error_code ignored;
  if (!std::filesystem::is_directory(made_for.folder, ignored))
    throw InputError(fmt::format("there is no folder {}, in which the encoder of replies would be", folder));
  if (!made_for.facts.empty()) require_facts(made_for);
  const auto tokenizer = std::make_shared<const WordPiece>(load_wordpiece(folder));
  if (tokenizer->vocab_size() > made_for.vocab_size)
    throw InputError(fmt::format("{}: the tokenizer has the id {}, and vocab_size in config.json is {}",
                                 folder, tokenizer->vocab_size() - 1, made_for.vocab_size));
  const std::string weights = WeightFiles(folder).fingerprint(WeightFiles::Reads::everything);
  const auto ids = [tokenizer](std::string_view text, int64_t most) { return tokenizer->encode(text, most); };
  return {
      {made_for.folder, ids, made_for.first_token},
      fmt::format("an encoder with fingerprint {}{}{}", weights, tokenizer->fingerprint(), made_for.shape)};
}

}  // namespace hydrac::runtime
