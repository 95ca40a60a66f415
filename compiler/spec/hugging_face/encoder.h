// An encoder of sentences of BERT's architecture (arXiv 1810.04805), as its Hugging Face folder describes it.
#pragma once
#include <cstdint>
#include <string>

#include "spec/keys/enums.h"

namespace hydrac::spec {

struct Draft;

struct Encoder {
  std::string folder;
  int64_t hidden_size = 0;  // C
  int64_t num_hidden_layers = 0, num_attention_heads = 0, intermediate_size = 0;
  int64_t vocab_size = 0, max_position_embeddings = 0, type_vocab_size = 0;
  double norm_eps = 0;
  Activation hidden_act = Activation::gelu;  // not gated
  int64_t max_tokens = 0;                    // of a text, with those that begin and end it
  // A text's embedding: the mean of its tokens' last hidden states, or that of the first token.
  bool first_token = false;

  int64_t head_dim() const { return hidden_size / num_attention_heads; }
};

// Reads the folder that objective.embed names, if the draft's spec has an objective and the key is not
// "model": config.json, and what sentence-transformers writes beside it (modules.json and the file of its
// pooling, sentence_bert_config.json). What hydrac cannot build is an error, at its place in these files.
void read_encoder(Draft& draft);

}  // namespace hydrac::spec
