#include "spec/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "diag/render.h"
#include "spec/checks/check.h"
#include "spec/functions.h"
#include "spec/hugging_face/encoder.h"
#include "spec/hugging_face/hf_config.h"
#include "spec/hugging_face/hugging_face.h"
#include "spec/hugging_face/peft_config.h"
#include "spec/layers.h"
#include "spec/reader/bind.h"
#include "spec/reader/draft.h"
#include "spec/reader/overrides.h"
#include "spec/reader/paths.h"
#include "spec/reader/source.h"
#include "spec/resolve.h"
#include "targets/target.h"

namespace hydrac::spec {
namespace {

using diag::Kind;
namespace fs = std::filesystem;

constexpr size_t kLongestChain = 16;  // specs that extend one another

// Identifies a file, however its path is spelled.
std::string identity(const std::string& path) {
  std::error_code ignored;
  const fs::path canonical = fs::weakly_canonical(path, ignored);
  return canonical.empty() ? path : canonical.string();
}

// A key that is read while the tree is put together, before the others: takes it out of `map` and returns its
// text and place. A value of the wrong type stays, for bind to refuse.
std::optional<Node> take_text(Node& map, std::string_view key) {
  const Entry* entry = map.find(key);
  if (entry == nullptr || entry->value.kind != Node::Kind::scalar || entry->value.text.empty())
    return std::nullopt;
  Node value = entry->value;
  map.erase(key);
  return value;
}

// Replaces `tree` by what it extends with `tree` laid over it. `chain` holds the files on the way here.
bool apply_extends(Node& tree, std::vector<std::string> chain, diag::Diagnostics& diagnostics) {
  const std::optional<Node> extends = take_text(tree, "extends");
  // Another type is refused later; what the base would have brought is then not missed as well.
  if (const Entry* refused = tree.find("extends")) return refused->value.kind == Node::Kind::scalar;
  if (!extends) return true;
  const std::string path = path_from(extends->where, extends->text, diagnostics);
  const std::string file = identity(path);
  if (std::find(chain.begin(), chain.end(), file) != chain.end()) {
    diagnostics.report(Kind::extends_cycle, extends->where,
                       fmt::format("{} extends this spec in turn", diag::printable(extends->text)),
                       "one of the two must stand alone");
    return false;
  }
  if (chain.size() == kLongestChain) {
    diagnostics.report(Kind::extends_cycle, extends->where,
                       fmt::format("more than {} specs extend one another", kLongestChain));
    return false;
  }
  chain.push_back(file);
  std::optional<Node> base = read_map(path, extends->where, diagnostics);
  if (!base || !apply_extends(*base, std::move(chain), diagnostics)) return false;
  const diag::Location top = tree.where;
  overlay_spec(*base, std::move(tree));
  tree = std::move(*base);
  tree.where = top;
  return true;
}

// Makes weights and tokenizer of the model's folder those of the spec, where it does not name others.
void apply_model_folder(Node& tree, const fs::path& folder, const Node& from,
                        diag::Diagnostics& diagnostics) {
  std::error_code ignored;
  const auto holds = [&](const char* name) { return fs::exists(folder / name, ignored); };
  const auto scalar = [&](const fs::path& path) {
    return Node{.kind = Node::Kind::scalar, .where = from.where, .text = path.string(), .quoted = true};
  };
  Node& model = tree.find("model")->value;
  const bool loads = model.find("weights") == nullptr;
  if (loads) {
    if (!holds("model.safetensors") && !holds("model.safetensors.index.json"))
      diagnostics.report(
          Kind::weights_missing, from.where,
          fmt::format("{} has neither model.safetensors nor model.safetensors.index.json",
                      diag::printable(folder.string())),
          "model.weights: none begins with random weights; other formats become safetensors by transformers' "
          "save_pretrained");
    model.set({"weights", from.where, scalar(folder)});
  }
  Entry* data = tree.find("data");
  if (data == nullptr || data->value.kind != Node::Kind::map || data->value.find("tokenizer") != nullptr)
    return;
  if (holds("tokenizer.json"))
    data->value.set({"tokenizer", from.where, scalar(folder / "tokenizer.json")});
  else if (loads)
    diagnostics.report(Kind::tokenizer_missing, from.where,
                       fmt::format("{} has no tokenizer.json, and its weights know the ids of one",
                                   diag::printable(folder.string())),
                       "write data.tokenizer");
}

// Puts what `model.from` says under the keys that the spec writes itself.
bool apply_model_from(Node& tree, diag::Diagnostics& diagnostics) {
  Entry* model = tree.find("model");
  if (model == nullptr || model->value.kind != Node::Kind::map) return true;
  const std::optional<Node> from = take_text(model->value, "from");
  if (!from) return true;
  const fs::path path = from->text;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  std::optional<Node> config = read_hf_config(is_folder ? (path / "config.json").string() : path.string(),
                                              from->where, model->value, diagnostics);
  if (!config) return false;
  overlay(*config, std::move(model->value));
  model->value = std::move(*config);
  if (is_folder) apply_model_folder(tree, path.lexically_normal(), *from, diagnostics);
  return true;
}

// Puts what `adapter.from` says under the keys that the spec writes itself.
bool apply_adapter_from(Node& tree, diag::Diagnostics& diagnostics) {
  Entry* adapter = tree.find("adapter");
  if (adapter == nullptr || adapter->value.kind != Node::Kind::map) return true;
  const std::optional<Node> from = take_text(adapter->value, "from");
  if (!from) return true;
  const fs::path folder = fs::path(from->text).lexically_normal();
  std::optional<Node> config =
      read_peft_config((folder / "adapter_config.json").string(), from->where, adapter->value, diagnostics);
  if (!config) return false;
  const Node weights{
      .kind = Node::Kind::scalar, .where = from->where, .text = folder.string(), .quoted = true};
  config->set({"weights", from->where, weights});
  overlay(*config, std::move(adapter->value));
  adapter->value = std::move(*config);
  return true;
}

// `auto` and `cuda` become the target they stand for; where the user wrote them is kept.
void settle_target(Draft& draft, std::string_view machine) {
  if (draft.spec.target == "cuda" && targets::find(machine)->is_cpu()) {
    draft.report(Kind::no_gpu, {"target"},
                 "target: cuda is this machine's GPU, and it has none that hydrac can use",
                 "write auto, which is cpu then, or the GPU that the program is for, such as h100");
    draft.broken.insert("target");
  } else if (draft.spec.target == "auto" || draft.spec.target == "cuda") {
    draft.spec.target = machine;
  }
}

// Reads tokenizer.json, which may be large, only if it decides what a checkpoint is.
void read_tokenizer(Spec& spec) {
  spec.qwen2_tokenizer = true;
  spec.qwen2_tokenizer = family_of(spec).qwen2_tokenizer && is_qwen2_tokenizer(spec.data.tokenizer);
}

// `whole`: all files that the spec is made of could be read.
std::optional<Spec> finish(const Node& tree, bool whole, diag::Diagnostics& diagnostics,
                           std::string_view machine) {
  Draft draft{
      .spec = {}, .diagnostics = diagnostics, .top = tree.where, .whole = whole, .broken = {}, .usual = {}};
  bind(tree, draft);
  settle_target(draft, machine);
  check_target_name(draft);
  lift_functions(draft);
  read_encoder(draft);
  resolve(draft);
  check(draft);
  if (diagnostics.has_errors()) return std::nullopt;
  read_tokenizer(draft.spec);
  return std::move(draft.spec);
}

std::optional<Spec> load(const std::string& file, const std::string& text,
                         std::span<const std::string> overrides, diag::Diagnostics& diagnostics,
                         std::string_view machine, const Node* laid_over) {
  std::optional<Node> tree = parse_map(file, text, diagnostics);
  bool whole = tree && apply_extends(*tree, {identity(file)}, diagnostics);
  Node root = tree ? std::move(*tree) : Node{.kind = Node::Kind::map};
  if (laid_over != nullptr) overlay_spec(root, *laid_over);
  apply_overrides(overrides, root, diagnostics);
  if (!tree) return std::nullopt;
  whole &= resolve_paths(root, diagnostics);
  whole &= apply_model_from(root, diagnostics);
  whole &= apply_adapter_from(root, diagnostics);
  return finish(root, whole, diagnostics, machine);
}

}  // namespace

std::optional<Spec> load_spec(const std::string& path, std::span<const std::string> overrides,
                              diag::Diagnostics& diagnostics, std::string_view machine,
                              const Node* laid_over) {
  const std::optional<std::string> text = read_source(path, {path, 0, 0}, diagnostics);
  if (!text) return std::nullopt;
  return load(path, *text, overrides, diagnostics, machine, laid_over);
}

std::optional<Spec> load_spec_text(const std::string& file, std::string text,
                                   std::span<const std::string> overrides, diag::Diagnostics& diagnostics,
                                   std::string_view machine) {
  diagnostics.add_source(file, text);
  return load(file, text, overrides, diagnostics, machine, nullptr);
}

}  // namespace hydrac::spec
