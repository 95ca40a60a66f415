// What a Hugging Face tokenizer.json with a byte-level BPE model says, checked and in the terms the encoder
// works in.
#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/text/added_tokens.h"
#include "runtime/text/bpe_merges.h"

namespace hydrac::runtime {

struct BpeFile {
  std::vector<std::string> tokens;  // the bytes of each id; empty where no token has it
  std::vector<bool> in_model;  // by id: a token of the model, made of bytes, that a whole piece may become
  std::vector<bool> special;   // by id
  std::array<int32_t, 256> byte_ids;  // the id of each single byte, -1 where the file has none
  MergeTable merges{0};
  bool ignore_merges = false;  // a piece that is a token becomes it without merging
  bool nfc = false;            // text is composed first
  std::vector<AddedToken> added;
  std::optional<int32_t> end_of_text;
};

// Throws InputError, beginning with `shown_as`, for what is malformed, contradictory or not supported.
BpeFile read_bpe_file(const nlohmann::json& root, const std::string& shown_as);

}  // namespace hydrac::runtime
