// A Hugging Face tokenizer.json with a BPE model, checked and in the terms the encoder works in. Two kinds:
// byte-level (GPT-2, Llama 3, Qwen), whose tokens are made of bytes, and SentencePiece's with byte_fallback
// (Llama 2, Mistral 7B), whose tokens are made of characters, with a mark for spaces and tokens for single
// bytes.
#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/text/tokenizer/added_tokens.h"
#include "runtime/text/tokenizer/bpe_merges.h"
#include "runtime/text/tokenizer/post_processor.h"

namespace hydrac::runtime {

// For SentencePiece's kind: spaces become U+2581, and one stands before a text.
struct SpaceMarks {
  // Before each stretch between added tokens; before each that does not begin with one; before the text,
  // unless it does; nowhere.
  enum class Prefix { always, each, first, never };
  Prefix prefix = Prefix::always;
  bool splits = false;  // each mark begins a piece of its own
};

struct BpeFile {
  std::vector<std::string> tokens;  // the bytes of each id; empty where no token has it
  std::vector<bool> in_model;  // by id: a token of the model, made of bytes, that a whole piece may become
  std::vector<bool> special;   // by id
  std::array<int32_t, 256> byte_ids;  // the id of each single byte, -1 where the file has none; as <0x41>
  MergeTable merges{0};
  bool ignore_merges = false;                           // a piece that is a token becomes it without merging
  bool nfc = false;                                     // text is composed first
  std::optional<SpaceMarks> space_marks;                // SentencePiece's kind
  std::unordered_map<std::string, int32_t> characters;  // of that kind: the id of each single character
  std::vector<AddedToken> added;
  PostProcessor post_processor;
};

// Throws InputError, beginning with `shown_as`, for what is malformed, contradictory or not supported.
BpeFile read_bpe_file(const nlohmann::json& root, const std::string& shown_as);

}  // namespace hydrac::runtime
