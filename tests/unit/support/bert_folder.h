// A tiny BERT with random weights in a folder as Hugging Face's: an encoder for objective.embed.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "runtime/checkpoint/file_writer.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/tensor_io.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::test {

struct BertFolder {
  int64_t width = 48, layers = 2, heads = 3, inner = 80, positions = 24;
  std::string prefix = {};      // of the names in its file
  float largest_weight = 0.4f;  // of a linear layer's
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> numbers;
  };
  std::map<std::string, Tensor> tensors;

  // Of these ids the tokenizer knows: [PAD], [UNK], [CLS], [SEP], printable ASCII and the same behind ##.
  static std::vector<std::string> vocabulary() {
    std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
    for (const char* prefix : {"", "##"})
      for (char c = '!'; c <= '~'; ++c)
        if (c < 'A' || c > 'Z') tokens.push_back(prefix + std::string(1, c));
    return tokens;
  }

  // Draws the tensors of this shape.
  void draw(unsigned seed) {
    std::mt19937 random(seed);
    const auto tensor = [&](const std::string& name, std::vector<int64_t> shape, float mean,
                            float deviation) {
      Tensor& made = tensors[prefix + name];
      int64_t count = 1;
      for (const int64_t size : shape) count *= size;
      made.shape = std::move(shape);
      for (int64_t i = 0; i < count; ++i)
        made.numbers.push_back(mean + deviation * (static_cast<float>(random() % 2001) / 1000 - 1));
    };
    const auto norm = [&](const std::string& name) {
      tensor(name + ".weight", {width}, 1, 0.3f);
      tensor(name + ".bias", {width}, 0, 0.3f);
    };
    const auto linear = [&](const std::string& name, int64_t out, int64_t in) {
      tensor(name + ".weight", {out, in}, 0, largest_weight);
      tensor(name + ".bias", {out}, 0, 0.3f);
    };
    tensor("embeddings.word_embeddings.weight", {static_cast<int64_t>(vocabulary().size()), width}, 0, 1);
    tensor("embeddings.position_embeddings.weight", {positions, width}, 0, 0.5f);
    tensor("embeddings.token_type_embeddings.weight", {2, width}, 0, 0.5f);
    norm("embeddings.LayerNorm");
    for (int64_t layer = 0; layer < layers; ++layer) {
      const std::string at = "encoder.layer." + std::to_string(layer) + ".";
      for (const char* part : {"query", "key", "value"}) linear(at + "attention.self." + part, width, width);
      linear(at + "attention.output.dense", width, width);
      norm(at + "attention.output.LayerNorm");
      linear(at + "intermediate.dense", inner, width);
      linear(at + "output.dense", width, inner);
      norm(at + "output.LayerNorm");
    }
    linear("pooler.dense", width, width);  // which nothing here reads
  }

  nlohmann::json config() const {
    return {{"model_type", "bert"},
            {"hidden_size", width},
            {"num_hidden_layers", layers},
            {"num_attention_heads", heads},
            {"intermediate_size", inner},
            {"vocab_size", vocabulary().size()},
            {"max_position_embeddings", positions},
            {"type_vocab_size", 2},
            {"layer_norm_eps", 1e-12},
            {"hidden_act", "gelu"}};
  }

  void write_weights(const std::filesystem::path& folder) const {
    runtime::FileWriter file(folder / "model.safetensors");
    std::vector<runtime::TensorToWrite> all;
    for (const auto& [name, tensor] : tensors)
      all.push_back(runtime::raw_tensor_to_write(name, runtime::SafetensorsDtype::f32, tensor.shape,
                                                 tensor.numbers.data()));
    runtime::write_safetensors(file, std::move(all));
    file.close_durably();
  }

  // Makes `folder` with config.json, vocab.txt and model.safetensors.
  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    spill(folder / "config.json", config().dump());
    std::string list;
    for (const std::string& token : vocabulary()) list += token + "\n";
    spill(folder / "vocab.txt", list);
    write_weights(folder);
  }
};

}  // namespace hydrac::test
