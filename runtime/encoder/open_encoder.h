// Opens the encoder of sentences that embeds replies: the tokenizer and the weights of its folder, checked
// against what the program was made for.
#pragma once
#include <filesystem>
#include <vector>

#include "runtime/train/reply_encoder.h"

namespace hydrac::runtime {

// InputError if a file is missing or damaged, if its facts differ from those that the program was made for,
// or if the tokenizer has more ids than the program's table. WeightFiles::check_encoder() checks the weights'
// shapes.
OpenedEncoder open_encoder(const EncoderFolder& made_for);

// All that the JSON files of an encoder's folder (config.json, and those of sentence-transformers) say of
// what it computes; what else they hold changes no number. InputError where one is no JSON.
std::vector<EncoderFact> encoder_facts(const std::filesystem::path& folder);

}  // namespace hydrac::runtime
