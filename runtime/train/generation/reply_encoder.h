// A sentence encoder, which embeds replies in place of the model's own hidden states (docs/objectives.md):
// what a program was compiled for, and what its folder gives to a run. runtime/encoder opens it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::runtime {

struct ReplyEncoder {
  std::filesystem::path weights;  // see WeightFiles::fill_encoder(); empty: there is none
  // The ids of a text, those included that begin and end it, and at most so many. Needed where there is one.
  std::function<std::vector<int32_t>(std::string_view text, int64_t most)> ids;
  bool first_token = false;  // a text is embedded by the hidden state of its first token, not by their mean
};

// A value of one of an encoder's JSON files under a key, as JSON; "null" if it has none.
struct EncoderFact {
  std::string file, key, value;
};

// The folder of an encoder, and what a program was made for. Plain data.
struct EncoderFolder {
  std::filesystem::path folder;    // in which runs look for it; empty: there is no encoder
  int64_t vocab_size = 0;          // ids that the program's table has
  bool first_token = false;        // see ReplyEncoder
  std::string shape;               // a fingerprint of what no weight shows: heads, activation, ..
  std::vector<EncoderFact> facts;  // that the folder must state; none: they were read just now
};

struct OpenedEncoder {
  ReplyEncoder encoder;
  std::string identity;  // of what it makes of texts, wherever its folder lies: objective.embed in a run's
};

// See runtime/encoder/open_encoder.h.
using OpenEncoder = std::function<OpenedEncoder(const EncoderFolder&)>;

}  // namespace hydrac::runtime
