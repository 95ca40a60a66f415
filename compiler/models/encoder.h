// An encoder of sentences of BERT's architecture beside the model: what embeds replies (objective.embed). It
// does not train, and no checkpoint holds it.
#pragma once
#include <vector>

#include "ir/graph.h"
#include "spec/hugging_face/encoder.h"

namespace hydrac::models {

struct Model;

// A tensor of the encoder's files that holds rows of a value.
struct EncoderTensor {
  ir::ValueId value = ir::kNoValue;
  ir::CheckpointPart part;
};

struct EncoderInterface {
  // Parameters. Matrices are [out, in]; C is the encoder's width, I that of its mlp. Norms' are f32, all
  // others of the activations' type.
  struct Layer {
    ir::ValueId weight = ir::kNoValue, bias = ir::kNoValue;
  };
  ir::ValueId word = ir::kNoValue, position = ir::kNoValue, types = ir::kNoValue;  // [V,C], [P,C], [types,C]
  ir::ValueId first_type = ir::kNoValue;                                           // [C], a view: row 0
  Layer input_norm;                                                                // [C]
  // With a slot a layer.
  Layer qkv;        // [3C,C], [3C]
  Layer out;        // [C,C], [C]
  Layer attn_norm;  // [C]
  Layer up;         // [I,C], [I]
  Layer down;       // [C,I], [C]
  Layer mlp_norm;   // [C]

  std::vector<EncoderTensor> tensors;
};

// `rows`: E. Activations, and what matmuls read, are stored as `storage`.
EncoderInterface declare_encoder(ir::Graph& graph, const spec::Encoder& encoder, int64_t rows,
                                 ir::DType storage);

// "embed": forward of a batch of texts, without dropout; the last hidden states are added to
// results.reply_embeddings by segments, whose distances follow.
void build_embed(Model& model);

}  // namespace hydrac::models
