#include "spec/hugging_face/encoder.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <variant>

#include "diag/render.h"
#include "spec/reader/draft.h"
#include "spec/reader/scalar.h"
#include "spec/reader/source.h"
#include "spec/reader/yaml.h"

namespace hydrac::spec {
namespace {

using diag::Kind;
namespace fs = std::filesystem;

constexpr const char* kKey = "objective.embed";

struct EncoderActivation {
  std::string_view theirs;
  Activation ours;
};
constexpr auto kEncoderActivations =
    std::to_array<EncoderActivation>({{"gelu", Activation::gelu},
                                      {"gelu_python", Activation::gelu},
                                      {"gelu_new", Activation::gelu_tanh},
                                      {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                      {"silu", Activation::silu},
                                      {"swish", Activation::silu}});

class FolderReader {
 public:
  FolderReader(Draft& draft, fs::path folder)
      : folder_(std::move(folder)), where_(draft.place({kKey})), diagnostics_(draft.diagnostics) {}

  Encoder read();

 private:
  void read_config();
  void check_heads(const Node& config);
  void read_modules();
  void read_module(const Node& module);
  void read_pooling(const Entry& folder);
  void read_sentence_config();

  bool holds(const char* name) const {
    std::error_code ignored;
    return fs::exists(folder_ / name, ignored);
  }
  // JSON is YAML, and this way every value has its place.
  std::optional<Node> map_of(const std::string& name);
  void unsupported(const diag::Location& where, std::string message, std::string suggestion = "") {
    diagnostics_.report(Kind::config_unsupported, where, std::move(message), std::move(suggestion));
  }
  void take(const Node& map, std::string_view key, int64_t most, int64_t& out,
            std::optional<int64_t> if_absent = {});
  void must_be(const Node& map, std::string_view key, std::string_view wanted);

  const fs::path folder_;
  const diag::Location where_;
  diag::Diagnostics& diagnostics_;
  Encoder encoder_;
};

const Entry* written(const Node& map, std::string_view key) {
  const Entry* entry = map.find(key);
  return entry == nullptr || entry->value.kind == Node::Kind::null ? nullptr : entry;
}

bool is_true(const Node& map, std::string_view key) {
  const Entry* entry = written(map, key);
  return entry != nullptr && entry->value.text == "true";
}

std::optional<Node> FolderReader::map_of(const std::string& name) {
  return read_map((folder_ / name).string(), where_, diagnostics_);
}

// A whole number from 1 to `most`.
void FolderReader::take(const Node& map, std::string_view key, int64_t most, int64_t& out,
                        std::optional<int64_t> if_absent) {
  const Entry* entry = written(map, key);
  if (entry == nullptr) {
    if (!if_absent) return unsupported(map.where, fmt::format("this file has no {}", key));
    out = *if_absent;
    return;
  }
  const Scalar value = entry->value.kind == Node::Kind::scalar ? scalar_value(entry->value) : Scalar(Null{});
  const auto* number = std::get_if<int64_t>(&value);
  if (number == nullptr || *number < 1 || *number > most)
    return unsupported(entry->value.where, fmt::format("{} must be a whole number between 1 and {}, not {}",
                                                       key, most, describe(entry->value)));
  out = *number;
}

void FolderReader::must_be(const Node& map, std::string_view key, std::string_view wanted) {
  const Entry* entry = written(map, key);
  if (entry == nullptr || entry->value.text == wanted) return;
  unsupported(entry->value.where,
              fmt::format("an encoder with {} {} is not supported", key, diag::printable(entry->value.text)),
              fmt::format("{} is", wanted));
}

void FolderReader::check_heads(const Node& config) {
  const Encoder& e = encoder_;
  if (e.hidden_size == 0 || e.num_attention_heads == 0) return;
  const int64_t width = e.head_dim();
  if (e.hidden_size % e.num_attention_heads == 0 && width % 8 == 0 && width <= 256) return;
  unsupported(
      written(config, "num_attention_heads")->value.where,
      fmt::format("{} heads in a width of {} are not supported", e.num_attention_heads, e.hidden_size),
      "heads of a multiple of 8, up to 256, are");
}

void FolderReader::read_config() {
  const std::optional<Node> config = map_of("config.json");
  if (!config) return;
  const Entry* type = written(*config, "model_type");
  if (type == nullptr || type->value.text != "bert")
    return unsupported(type == nullptr ? config->where : type->value.where,
                       type == nullptr ? "this config.json has no model_type"
                                       : fmt::format("encoders of type {} are not supported",
                                                     diag::printable(type->value.text)),
                       "bert is");
  take(*config, "hidden_size", 65536, encoder_.hidden_size);
  take(*config, "num_hidden_layers", 1024, encoder_.num_hidden_layers);
  take(*config, "num_attention_heads", 1024, encoder_.num_attention_heads);
  take(*config, "intermediate_size", 1 << 20, encoder_.intermediate_size);
  take(*config, "vocab_size", 1 << 24, encoder_.vocab_size);
  take(*config, "max_position_embeddings", 1 << 20, encoder_.max_position_embeddings);
  take(*config, "type_vocab_size", 1 << 16, encoder_.type_vocab_size, 2);
  must_be(*config, "position_embedding_type", "absolute");
  must_be(*config, "is_decoder", "false");
  check_heads(*config);

  encoder_.norm_eps = 1e-12;
  if (const Entry* eps = written(*config, "layer_norm_eps")) {
    const Scalar value = eps->value.kind == Node::Kind::scalar ? scalar_value(eps->value) : Scalar(Null{});
    const auto* number = std::get_if<double>(&value);
    if (number == nullptr || !(*number > 0 && *number < 1))
      unsupported(eps->value.where, fmt::format("layer_norm_eps must be a number above 0 and below 1, not {}",
                                                describe(eps->value)));
    else
      encoder_.norm_eps = *number;
  }
  const Entry* act = written(*config, "hidden_act");
  if (act == nullptr) return;
  for (const EncoderActivation& name : kEncoderActivations) {
    if (act->value.text != name.theirs) continue;
    encoder_.hidden_act = name.ours;
    return;
  }
  unsupported(act->value.where,
              fmt::format("hidden_act {} is not supported", diag::printable(act->value.text)),
              "gelu, gelu_new and silu are");
}

// The modules behind the encoder in sentence-transformers' list.
void FolderReader::read_modules() {
  if (!holds("modules.json")) return;
  const std::string path = (folder_ / "modules.json").string();
  const std::optional<std::string> text = read_source(path, where_, diagnostics_);
  if (!text || !is_clean_text(path, *text, diagnostics_, "it is JSON in UTF-8")) return;
  const std::optional<Node> modules = parse_yaml(*text, {path, 1, 1}, diagnostics_);
  if (!modules) return;
  if (modules->kind != Node::Kind::list)
    return unsupported(modules->where, "modules.json is a list of maps, each with type and path");
  for (const Node& module : modules->items) read_module(module);
}

void FolderReader::read_module(const Node& module) {
  const Entry* type = module.kind == Node::Kind::map ? written(module, "type") : nullptr;
  if (type == nullptr) return unsupported(module.where, "this module has no type");
  const Entry* path = written(module, "path");
  const std::string name = type->value.text.substr(type->value.text.rfind('.') + 1);
  if (name == "Normalize") return;  // which changes no cosine
  if (name == "Pooling" && path != nullptr) return read_pooling(*path);
  const bool is_here = path == nullptr || path->value.text.empty();
  if (name == "Transformer" && is_here) return;
  unsupported(type->value.where,
              name == "Transformer"
                  ? "an encoder in a folder of its own is not supported"
                  : fmt::format("the module {} behind an encoder is not supported", diag::printable(name)),
              "Transformer in the folder itself, Pooling and Normalize are");
}

void FolderReader::read_pooling(const Entry& folder) {
  const std::string& path = folder.value.text;
  // A path may lead anywhere, and this one is of the same folder.
  if (path.empty() || path.find('/') != std::string::npos || path.starts_with('.'))
    return unsupported(folder.value.where,
                       fmt::format("the path {} names no folder beside it", diag::printable(path)));
  const std::optional<Node> pooling = map_of(path + "/config.json");
  if (!pooling) return;
  bool takes_mean = false, takes_first = false;
  for (const Entry& entry : pooling->entries) {
    const std::string& mode = entry.value.text;
    if (entry.key == "pooling_mode") {
      takes_mean |= mode == "mean";
      takes_first |= mode == "cls";
      if (mode == "mean" || mode == "cls") continue;
    } else if (!entry.key.starts_with("pooling_mode_") || mode != "true") {
      continue;
    } else if (entry.key == "pooling_mode_mean_tokens" || entry.key == "pooling_mode_cls_token") {
      (entry.key == "pooling_mode_cls_token" ? takes_first : takes_mean) = true;
      continue;
    }
    return unsupported(entry.where, fmt::format("{} is not supported", diag::printable(entry.key)),
                       "the mean of the tokens and the first token alone are");
  }
  if (takes_mean == takes_first)
    return unsupported(pooling->where, "one way of pooling is supported, and this file has another number",
                       "the mean of the tokens and the first token alone are");
  encoder_.first_token = takes_first;
}

void FolderReader::read_sentence_config() {
  encoder_.max_tokens = encoder_.max_position_embeddings;
  if (!holds("sentence_bert_config.json")) return;
  const std::optional<Node> config = map_of("sentence_bert_config.json");
  if (!config) return;
  take(*config, "max_seq_length", encoder_.max_position_embeddings, encoder_.max_tokens,
       encoder_.max_position_embeddings);
  if (is_true(*config, "do_lower_case"))
    unsupported(config->find("do_lower_case")->value.where,
                "lower case before the tokenizer is not supported",
                "write false where the tokenizer itself does that");
}

Encoder FolderReader::read() {
  encoder_.folder = folder_.string();
  const size_t errors = diagnostics_.errors();
  read_config();
  if (diagnostics_.errors() != errors) return encoder_;
  read_modules();
  read_sentence_config();
  constexpr int64_t fewest = 3;  // [CLS], a token and [SEP]
  if (encoder_.max_tokens < fewest)
    unsupported(where_, fmt::format("texts of {} tokens have no room for any between [CLS] and [SEP]",
                                    encoder_.max_tokens));
  return encoder_;
}

}  // namespace

void read_encoder(Draft& draft) {
  if (!draft.usable({"objective.name", kKey}) || !samples_replies(draft.spec) ||
      draft.spec.objective.embed == "model")
    return;
  const std::string& named = draft.spec.objective.embed;
  std::error_code ignored;
  const size_t errors = draft.diagnostics.errors();
  if (fs::is_directory(named, ignored))
    draft.spec.encoder = FolderReader(draft, named).read();
  else
    draft.report(Kind::unreadable_file, {kKey},
                 fmt::format("there is no folder {}", diag::printable(named, 4096)),
                 "write model, or the folder of an encoder such as all-MiniLM-L6-v2");
  if (draft.diagnostics.errors() != errors) draft.broken.insert(kKey);
}

}  // namespace hydrac::spec
