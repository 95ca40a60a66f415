// Spaces and bytes in the tokens of SentencePiece's kind of BPE, as Hugging Face's tokenizer.json has it.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/text/tokenizer/bpe_file.h"

namespace hydrac::runtime {

inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581

// Reads normalizer and pre_tokenizer of the file: either Prepend and Replace as normalizer, or Metaspace as
// pre-tokenizer. InputError for anything else.
SpaceMarks read_space_marks(const nlohmann::json& root, const std::string& shown_as);

// `text`, a stretch between added tokens, with marks. `is_first`: the text begins with it.
std::string with_space_marks(std::string_view text, SpaceMarks::Prefix prefix, bool is_first);
std::string without_space_marks(std::string_view token);

// The byte that a token like <0x41> stands for.
std::optional<unsigned char> byte_named(std::string_view token);

}  // namespace hydrac::runtime
