#include "spec/hugging_face/peft_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "diag/render.h"
#include "spec/reader/scalar.h"
#include "spec/reader/source.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

struct PeftKey {
  enum class Role { becomes, one_of, off, free };
  std::string_view name;
  Role role;
  std::string_view what = "";  // our key, or the values with spaces between them
  std::string_view more = "";  // PEFT's default, or what to do about another value
};

constexpr auto kPeftKeys = std::to_array<PeftKey>({
#define BECOMES(theirs, ours, fallback) {#theirs, PeftKey::Role::becomes, #ours, fallback},
#define ONE_OF(theirs, values, help) {#theirs, PeftKey::Role::one_of, values, help},
#define OFF(theirs) {#theirs, PeftKey::Role::off},
#define FREE(theirs) {#theirs, PeftKey::Role::free},
#include "spec/hugging_face/peft_keys.def"
#undef BECOMES
#undef ONE_OF
#undef OFF
#undef FREE
});

bool is_off(const Node& value) {
  switch (value.kind) {
    case Node::Kind::null:
      return true;
    case Node::Kind::scalar:
      return !value.quoted && (value.text == "false" || value.text == "null");
    case Node::Kind::list:
      return value.items.empty();
    case Node::Kind::map:
      return value.entries.empty();
  }
  return false;
}

bool is_one_of(const Node& value, std::string_view words) {
  if (value.kind == Node::Kind::null) return true;
  return value.kind == Node::Kind::scalar && !value.text.empty() &&
         value.text.find(' ') == std::string::npos &&
         fmt::format(" {} ", words).find(fmt::format(" {} ", value.text)) != std::string::npos;
}

void report_off(diag::Diagnostics& diagnostics, const Entry& entry) {
  diagnostics.report(Kind::adapter_unsupported, entry.where,
                     fmt::format("hydrac's adapters have no {}", diag::printable(entry.key)),
                     "adapters of A and B alone, of one rank, are LoRA here");
}

// Sets the key of ours that `entry` is, or reports what it asks for.
void read_key(const PeftKey& key, const Entry& entry, Node& adapter, diag::Diagnostics& diagnostics) {
  switch (key.role) {
    case PeftKey::Role::becomes:
      return adapter.set({std::string(key.what), entry.where, entry.value});
    case PeftKey::Role::one_of:
      if (is_one_of(entry.value, key.what)) return;
      diagnostics.report(Kind::adapter_unsupported, entry.value.where,
                         fmt::format("{} is {}, which is not supported", key.name, describe(entry.value)),
                         std::string(key.more));
      return;
    case PeftKey::Role::off:
      if (!is_off(entry.value)) report_off(diagnostics, entry);
      return;
    case PeftKey::Role::free:
      return;
  }
}

Node read_adapter(const Node& config, diag::Diagnostics& diagnostics) {
  const auto scalar = [&](std::string_view text) {
    return Node{.kind = Node::Kind::scalar, .where = config.where, .text = std::string(text)};
  };
  Node adapter{.kind = Node::Kind::map, .where = config.where};
  adapter.set({"type", config.where, scalar("lora")});
  for (const PeftKey& key : kPeftKeys) {
    if (key.role == PeftKey::Role::becomes && !key.more.empty())
      adapter.set({std::string(key.what), config.where, scalar(key.more)});
  }
  for (const Entry& entry : config.entries) {
    const auto key = std::ranges::find(kPeftKeys, entry.key, &PeftKey::name);
    read_key(key != kPeftKeys.end() ? *key : PeftKey{entry.key, PeftKey::Role::off}, entry, adapter,
             diagnostics);
  }
  return adapter;
}

// A text is a regular expression there.
void check_modules(const Node& adapter, const Node& written, diag::Diagnostics& diagnostics) {
  if (written.find("target_modules") != nullptr) return;
  const Entry* modules = adapter.find("target_modules");
  if (modules == nullptr || modules->value.kind == Node::Kind::null) {
    diagnostics.report(Kind::adapter_unsupported, modules == nullptr ? adapter.where : modules->where,
                       "this adapter_config.json has no target_modules",
                       "write adapter.target_modules in the spec");
    return;
  }
  if (modules->value.kind != Node::Kind::scalar || modules->value.text == "all-linear") return;
  diagnostics.report(Kind::adapter_unsupported, modules->value.where,
                     "target_modules is a regular expression, which hydrac does not read",
                     "write adapter.target_modules in the spec, as a list");
}

}  // namespace

std::optional<Node> read_peft_config(const std::string& path, const diag::Location& wanted_by,
                                     const Node& written, diag::Diagnostics& diagnostics) {
  const std::optional<Node> config = read_map(path, wanted_by, diagnostics);
  if (!config) return std::nullopt;
  const size_t errors = diagnostics.errors();
  const Entry* type = config->find("peft_type");
  if (type == nullptr || type->value.kind == Node::Kind::null)
    diagnostics.report(Kind::adapter_unsupported, config->where, "this adapter_config.json has no peft_type",
                       "LORA is supported");
  Node adapter = read_adapter(*config, diagnostics);
  check_modules(adapter, written, diagnostics);
  if (diagnostics.errors() != errors) return std::nullopt;
  return adapter;
}

}  // namespace hydrac::spec
