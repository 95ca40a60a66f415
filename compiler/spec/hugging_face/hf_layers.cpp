// Keys of config.json that say what differs between layers: windows and rope.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "diag/render.h"
#include "spec/hugging_face/hf_keys.h"
#include "spec/reader/scalar.h"

namespace hydrac::spec {

struct RopeKind {
  std::string_view name;
  std::vector<std::string_view> needed, optional;
  bool has_length;  // original_max_position_embeddings
};

namespace {

// Hugging Face's kinds of rope scaling, and the keys of ours that they have under the same names.
const RopeKind kRopeKinds[] = {
    {"llama3", {"factor", "low_freq_factor", "high_freq_factor"}, {}, true},
    {"linear", {"factor"}, {}, false},
    {"dynamic", {"factor"}, {}, true},
    {"longrope", {"short_factor", "long_factor"}, {"factor", "attention_factor"}, true},
    {"yarn", {"factor"}, {"attention_factor", "beta_fast", "beta_slow", "truncate"}, true},
};
constexpr const char* kKnownKinds = "dynamic, linear, llama3, longrope and yarn";
constexpr const char* kNoScaling = "and model.rope_scaling: {factor: 1} turns it off";

}  // namespace

void HfKeys::windows(bool needs_switch) {
  const Entry* window = take("sliding_window");
  const Entry* used = take("use_sliding_window");
  const Entry* first = take("max_window_layers");
  const Entry* types = take("layer_types");
  const bool is_on = used != nullptr ? used->value.text == "true" : !needs_switch;
  if (is_written("sliding_window")) return;
  if (types != nullptr) return layer_types(*types, window);
  if (!is_on || window == nullptr) return;
  // Qwen's layers before max_window_layers see everything.
  const Entry* layers = config_.find("num_hidden_layers");
  const auto count = [](const Entry* entry) { return number_of(entry->value).value_or(-1); };
  if (needs_switch && (first == nullptr || count(first) != 0)) {
    if (first != nullptr && layers != nullptr && count(first) >= count(layers)) return;
    return unsupported(
        first != nullptr ? first->where : window->where,
        "a sliding window of the last layers only is not supported",
        "write model.sliding_window in the spec, or max_window_layers: 0 or num_hidden_layers");
  }
  set("sliding_window", window->where, window->value);
}

void HfKeys::windows_or(std::string_view if_absent) {
  if (config_.find("sliding_window") == nullptr && take("layer_types") == nullptr)
    constant("sliding_window", if_absent);
  windows(false);
}

void HfKeys::window_period(std::string_view if_absent) {
  const Entry* period = take("sliding_window_pattern");
  if (take("layer_types") != nullptr || so_far("sliding_window") == nullptr) return;
  if (period == nullptr) return constant("sliding_window_pattern", if_absent);
  // "LLLG": each letter is a layer, G one without a window.
  const std::string& text = period->value.text;
  const size_t global = text.find('G');
  if (text.find('L') == std::string::npos) return map("sliding_window_pattern", "sliding_window_pattern");
  if (global + 1 != text.size())
    return unsupported(period->where, fmt::format("the pattern {} is not supported", diag::printable(text)));
  set_number("sliding_window_pattern", period->where, text.size());
}

namespace {

// Items `number`, 2 * number, .. of a list are one kind and the others another; 0: all are the other kind.
// `misfit` is the first for which that does not hold, or null.
struct Period {
  size_t number = 0;
  const Node* misfit = nullptr;
};

Period period_of(const std::vector<Node>& items, std::string_view nth) {
  const auto first = std::ranges::find(items, nth, &Node::text);
  const size_t period = first == items.end() ? 0 : static_cast<size_t>(first - items.begin()) + 1;
  for (size_t i = 0; i < items.size(); ++i)
    if ((items[i].text == nth) != (period > 0 && (i + 1) % period == 0)) return {period, &items[i]};
  return {period};
}

}  // namespace

// A list of full_attention and sliding_attention: all of one kind, or every n-th layer full.
void HfKeys::layer_types(const Entry& types, const Entry* window) {
  const std::vector<Node>& items = types.value.items;
  for (const Node& item : items)
    if (item.text != "full_attention" && item.text != "sliding_attention")
      return unsupported(item.where,
                         fmt::format("layers of type {} are not supported", diag::printable(item.text)));
  const auto [period, misfit] = period_of(items, "full_attention");
  if (misfit != nullptr)
    return unsupported(misfit->where, "these layer_types are no pattern that hydrac has",
                       "it has windows in all layers, and in all but every n-th one");
  if (period == 1) return;
  if (window == nullptr)
    return unsupported(types.where, "this config.json has sliding_attention and no sliding_window",
                       "write model.sliding_window in the spec");
  set("sliding_window", window->where, window->value);
  if (period > 0) set_number("sliding_window_pattern", types.where, period);
}

void HfKeys::layers_without_rope(std::string_view list, std::string_view interval,
                                 std::string_view if_absent) {
  const Entry *layers = take(list), *every = take(interval);
  if (is_written("no_rope_pattern")) return;
  if (layers == nullptr || layers->value.items.empty())
    return every != nullptr ? map(interval, "no_rope_pattern") : constant("no_rope_pattern", if_absent);
  const auto [period, misfit] = period_of(layers->value.items, "0");
  if (misfit == nullptr) return set_number("no_rope_pattern", layers->where, period);
  unsupported(misfit->where, fmt::format("these {} are no pattern that hydrac has", list),
              "it has rope in all layers, and in all but every n-th one");
}

void HfKeys::part_of_head(std::string_view theirs, std::string_view if_absent) {
  may_be_partial_ = true;
  map(theirs, "partial_rotary_factor", if_absent);
}

bool HfKeys::refuses_part_of_head(const Entry* partial) {
  if (partial == nullptr || partial->value.text == "1.0" || partial->value.text == "1") return false;
  unsupported(partial->value.where, "rope on a part of a head is not supported");
  return true;
}

void HfKeys::rope(const Node& parameters) {
  if (parameters.kind != Node::Kind::map)
    return unsupported(parameters.where, fmt::format("rope_scaling is {}, not a map", describe(parameters)));
  const Entry* type = parameters.find("rope_type");
  if (type == nullptr) type = parameters.find("type");
  if (const Entry* theta = parameters.find("rope_theta")) set("rope_theta", theta->where, theta->value);
  if (const Entry* partial = parameters.find("partial_rotary_factor"); partial != nullptr && may_be_partial_)
    set("partial_rotary_factor", partial->where, partial->value);
  else if (refuses_part_of_head(partial))
    return;
  if (is_written("rope_scaling")) return;
  if (type == nullptr && parameters.find("factor") != nullptr)
    return unsupported(parameters.where, "this rope_scaling has a factor and no rope_type",
                       fmt::format("{} are known, {}", kKnownKinds, kNoScaling));
  if (type == nullptr || type->value.text == "default") return;
  for (const RopeKind& kind : kRopeKinds)
    if (type->value.text == kind.name || (type->value.text == "su" && kind.name == "longrope"))
      return rope_scaling(parameters, *type, kind);
  unsupported(type->value.where,
              fmt::format("rope scaling of type {} is not supported", diag::printable(type->value.text)),
              fmt::format("{} are, {}", kKnownKinds, kNoScaling));
}

namespace {

// A number; where one of the two is none, its text is an error of the key.
Node ratio_of(const Node& a, const Node& b, const diag::Location& where) {
  const std::optional<double> over = number_of(a), under = number_of(b);
  return {.kind = Node::Kind::scalar,
          .where = where,
          .text = over && under && *under > 0 ? yaml_number(std::max(1.0, *over / *under)) : a.text};
}

}  // namespace

void HfKeys::rope_scaling(const Node& parameters, const Entry& type, const RopeKind& kind) {
  Node scaling{.kind = Node::Kind::map, .where = parameters.where};
  Node name = type.value;
  name.text = kind.name;
  scaling.entries.push_back({"rope_type", type.where, std::move(name)});
  const auto add = [&](std::string_view key, const Entry* entry, bool is_needed) {
    if (entry != nullptr && entry->value.kind != Node::Kind::null)
      scaling.entries.push_back({std::string(key), entry->where, entry->value});
    else if (is_needed)
      unsupported(parameters.where, fmt::format("this rope_scaling has no {}", key));
  };
  for (const std::string_view key : kind.needed) add(key, parameters.find(key), true);
  for (const std::string_view key : kind.optional) add(key, parameters.find(key), false);
  // Phi-3 has the length beside rope_scaling; transformers takes max_position_embeddings for dynamic.
  const Entry *longest = config_.find("max_position_embeddings"),
              *length = take("original_max_position_embeddings");
  if (length == nullptr) length = parameters.find("original_max_position_embeddings");
  if (length == nullptr || kind.name == "dynamic") length = longest;
  if (kind.has_length) add("original_max_position_embeddings", length, true);
  if (kind.name == "longrope" && parameters.find("factor") == nullptr && longest != nullptr &&
      length != nullptr)
    scaling.entries.push_back(
        {"factor", length->where, ratio_of(longest->value, length->value, length->where)});
  for (const char* key : {"mscale", "mscale_all_dim"})
    if (const Entry* entry = parameters.find(key))
      unsupported(entry->where, fmt::format("{} of rope_scaling is not supported", key));
  set("rope_scaling", parameters.where, std::move(scaling));
}

void HfKeys::warn_beyond_trained_length() {
  const Entry *asked = written_.find("max_position_embeddings"),
              *trained = model_.find("max_position_embeddings");
  const Node* position = so_far("position");
  if (asked == nullptr || trained == nullptr || position == nullptr || position->text != "rope" ||
      so_far("rope_scaling") != nullptr)
    return;
  const double length = number_of(asked->value).value_or(0), known = number_of(trained->value).value_or(0);
  if (known <= 0 || length <= known) return;
  diagnostics_.report(
      diag::Kind::beyond_trained_length, asked->where,
      fmt::format("the model was trained with max_position_embeddings {}, and knows no positions beyond it",
                  trained->value.text),
      fmt::format("model.rope_scaling extends them: {{rope_type: yarn, factor: {}, "
                  "original_max_position_embeddings: {}}}",
                  yaml_number(length / known), trained->value.text));
}

void HfKeys::rope_by_layer(const Node& parameters) {
  const Entry *full = parameters.find("full_attention"), *sliding = parameters.find("sliding_attention");
  if (full == nullptr && sliding == nullptr) return rope(parameters);
  if (full != nullptr && full->value.kind == Node::Kind::map) rope(full->value);
  if (sliding == nullptr || sliding->value.kind != Node::Kind::map) return;
  const Entry* type = sliding->value.find("rope_type");
  if (type != nullptr && type->value.text != "default")
    return unsupported(type->value.where, "rope scaling in layers with a window is not supported");
  if (const Entry* theta = sliding->value.find("rope_theta"))
    set("rope_local_theta", theta->where, theta->value);
}

void HfKeys::settle_local_theta(std::string_view if_absent) {
  if (is_written("rope_local_theta")) return;
  if (so_far("rope_local_theta") == nullptr && !if_absent.empty()) constant("rope_local_theta", if_absent);
  const Node* local = so_far("rope_local_theta");
  const bool differs = local != nullptr && number("rope_local_theta") != number("rope_theta"),
             is_scaled = so_far("rope_scaling") != nullptr;
  const bool has_windows = so_far("sliding_window") != nullptr,
             has_both = has_windows && number("sliding_window_pattern").value_or(0) > 0;
  if (has_windows && !has_both && (differs || is_scaled))
    return unsupported(family_,
                       "rope of its own in layers with a window is not supported where all have one");
  if (has_both && is_scaled && local == nullptr)
    return set("rope_local_theta", family_, *so_far("rope_theta"));
  if (!has_both || (!differs && !is_scaled)) model_.erase("rope_local_theta");
}

}  // namespace hydrac::spec
