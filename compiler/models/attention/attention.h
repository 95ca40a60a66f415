// Attention blocks. A kind of attention is a file that derives from Attention, and a line in the list
// of attention.cpp.
#pragma once
#include <memory>

#include "models/blocks.h"
#include "models/declarer.h"

namespace hydrac::models {

// A block with its parameters.
class Attention {
 public:
  virtual ~Attention() = default;
  // Adds its nodes: normed [B,T,C] -> what the block adds to the residual stream [B,T,C], before dropout.
  // What it reads of earlier tokens comes from attend(), or from with_earlier(): "decode" gets one token at a
  // time.
  virtual Use mix(ops::RegionBuilder&, const Build&, Use x) const = 0;
};

// The kind that the model asks for, its parameters declared. The matrix that writes to the residual stream
// starts with `residual_deviation`.
std::shared_ptr<const Attention> declare_attention(Declarer&, const spec::Model&, double residual_deviation);

// Normed [B,T,C] -> what it adds to the stream.
Use attention_block(ops::RegionBuilder&, const Build&, Use x);

// What kinds of attention share.

// Queries or keys [B,T,H,D] turned by their positions where the model has rope.
Use rotated(ops::RegionBuilder&, const Build&, Use x, const std::string& name);
// softmax(q k^T) v as the model masks, caps and drops it: [B,T,HD]. Functions with a cache keep k and v, and
// "decode" reads those of earlier tokens from there.
Use attend(ops::RegionBuilder&, const Build&, Use q, Use k, Use v);

// The projection back to the stream's width, with its bias where the model has one.
struct OutputProjection {
  ir::ValueId weight = ir::kNoValue, bias = ir::kNoValue;  // [C, HD], [C]
  Use apply(ops::RegionBuilder&, const Build&, Use mixed) const;
};
OutputProjection declare_output(Declarer&, const spec::Model&, double residual_deviation);

}  // namespace hydrac::models
