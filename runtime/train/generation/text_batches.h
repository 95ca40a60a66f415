// Texts of an encoder of sentences, several to a row, as what embed() of train/reply_scores.h reads.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/program/step_program.h"

namespace hydrac::runtime {

struct EncodedText {
  int32_t segment = 0;       // Batch::segments
  std::vector<int32_t> ids;  // at least one, at most TextShape::tokens
};

// As many batches as all texts need. Each text follows the previous one if the row has room, else it begins
// the next row. A text is a document of its own, and so is the rest of a row, whose tokens belong to no
// segment. `first_token`: only a text's first token belongs to its segment.
std::vector<Batch> text_batches(std::span<const EncodedText> texts, const TextShape& shape, bool first_token);

}  // namespace hydrac::runtime
