#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/checkpoint/file_writer.h"
#include "runtime/encoder/open_encoder.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"

namespace hydrac::runtime {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kConfigKeys[] = {
    "model_type",        "hidden_size", "num_hidden_layers",       "num_attention_heads",
    "intermediate_size", "vocab_size",  "max_position_embeddings", "type_vocab_size",
    "layer_norm_eps",    "hidden_act",  "position_embedding_type", "is_decoder"};
constexpr const char* kSentenceKeys[] = {"max_seq_length", "do_lower_case"};

class FactReader {
 public:
  explicit FactReader(fs::path folder) : folder_(std::move(folder)) {}

  std::vector<EncoderFact> read() {
    add_keys("config.json", kConfigKeys);
    add_keys("sentence_bert_config.json", kSentenceKeys);
    add_modules();
    return std::move(facts_);
  }

 private:
  // An empty object where there is no such file.
  json read(const std::string& name) const {
    std::error_code ignored;
    const fs::path file = folder_ / name;
    if (!fs::exists(file, ignored)) return json::object();
    return parse_json(read_file(file), file.generic_string());
  }

  template <class Keys>
  void add_keys(const char* name, const Keys& keys) {
    const json file = read(name);
    for (const char* key : keys) facts_.push_back({name, key, json_field(file, key).dump()});
  }

  // Modules follow the encoder, each by its type and the folder of its own config.json.
  void add_modules() {
    constexpr const char* kName = "modules.json";
    const json modules = read(kName);
    for (size_t i = 0; modules.is_array() && i < modules.size(); ++i) {
      const std::string type = json_string(modules[i], "type", "", kName),
                        path = json_string(modules[i], "path", "", kName);
      facts_.push_back({kName, fmt::format("module {}", i), json(type + " " + path).dump()});
      if (type.ends_with("Pooling")) add_pooling(path + "/config.json");
    }
  }

  void add_pooling(const std::string& name) {
    const json pooling = read(name);
    for (const auto& [key, value] : pooling.items()) {
      if (std::string_view(key).starts_with("pooling_mode") && value != json(false))
        facts_.push_back({name, key, value.dump()});
    }
  }

  const fs::path folder_;
  std::vector<EncoderFact> facts_;
};

}  // namespace

std::vector<EncoderFact> encoder_facts(const fs::path& folder) {
  return FactReader(folder).read();
}

}  // namespace hydrac::runtime
