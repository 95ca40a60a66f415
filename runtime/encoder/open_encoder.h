// Opens the encoder of sentences that embeds replies: the tokenizer and the weights of its folder, checked
// against what the program was made for.
#pragma once
#include <filesystem>
#include <vector>

#include "runtime/train/reply_encoder.h"

namespace hydrac::runtime {

// InputError where a file is missing or damaged, states other facts than those that the program was made for,
// or where the tokenizer has more ids than the program's table. That the weights are of the program's shapes
// WeightFiles::check_encoder() says.
OpenedEncoder open_encoder(const EncoderFolder& made_for);

// All that the JSON files of an encoder's folder (config.json, and those of sentence-transformers) say of
// what it computes; what else they hold changes no number. InputError where one is no JSON.
std::vector<EncoderFact> encoder_facts(const std::filesystem::path& folder);

}  // namespace hydrac::runtime
