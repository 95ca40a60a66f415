// Opens the sentence encoder that embeds replies: the tokenizer and the weights of its folder, checked
// against the encoder that the program was compiled for.
#pragma once
#include <filesystem>
#include <vector>

#include "runtime/train/generation/reply_encoder.h"

namespace hydrac::runtime {

// InputError if a file is missing or damaged, if its facts differ from those that the program was made for,
// or if the tokenizer has more ids than the program's table. WeightFiles::check_encoder() checks the weights'
// shapes.
OpenedEncoder open_encoder(const EncoderFolder& made_for);

// All facts in the JSON files of an encoder's folder (config.json, and those of sentence-transformers) that
// its results depend on. InputError if one is no JSON.
std::vector<EncoderFact> encoder_facts(const std::filesystem::path& folder);

}  // namespace hydrac::runtime
