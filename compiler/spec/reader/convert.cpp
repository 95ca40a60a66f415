#include "spec/reader/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <utility>

#include "diag/render.h"
#include "diag/suggest.h"
#include "runtime/base/utf8.h"
#include "spec/keys/other_names.h"
#include "spec/reader/scalar.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

bool is_null(const Node& node) {
  const bool single = node.kind == Node::Kind::null || node.kind == Node::Kind::scalar;
  return single && std::holds_alternative<Null>(scalar_value(node));
}

void wrong_type(const Node& node, const KeyRow& key, std::string_view wanted, diag::Diagnostics& diagnostics,
                std::string suggestion = "") {
  std::string message = fmt::format("{} takes {}, not {}", key.path, wanted, describe(node));
  if (is_null(node)) {
    message = fmt::format("{} takes {}, and there is no value", key.path, wanted);
    if (!key.required) suggestion = "remove the line to get the default";
  }
  diagnostics.report(Kind::wrong_type, node.where, std::move(message), std::move(suggestion));
}

// A node that should be a number and is text: say what to write.
void not_a_number(const Node& node, const KeyRow& key, std::string_view wanted,
                  diag::Diagnostics& diagnostics) {
  if (node.kind == Node::Kind::scalar && node.quoted) {
    Node bare = node;
    bare.quoted = false;
    const Scalar value = scalar_value(bare);
    const bool number = std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
    return wrong_type(node, key, wanted, diagnostics,
                      number ? fmt::format("write {} without quotes", diag::printable(node.text)) : "");
  }
  if (node.kind != Node::Kind::scalar || !looks_like_number(node.text) ||
      !std::holds_alternative<std::string>(scalar_value(node)))
    return wrong_type(node, key, wanted, diagnostics);
  const std::string meant = meant_number(node.text);
  diagnostics.report(Kind::not_a_number, node.where,
                     fmt::format("{} takes {}; {} looks like a number but is none", key.path, wanted,
                                 diag::printable(node.text, 40)),
                     meant.empty() ? "write a number such as 6000 or 1.0e-4" : "write " + meant);
}

bool in_range(const Node& node, const KeyRow& key, double value, diag::Diagnostics& diagnostics) {
  if (key.rule.allows(value)) return true;
  diagnostics.report(
      Kind::out_of_range, node.where,
      fmt::format("{} must be {}, not {}", key.path, range_text(key.rule), diag::printable(node.text)));
  return false;
}

bool number(const Node& node, const KeyRow& key, std::string_view wanted, double& out,
            diag::Diagnostics& diagnostics) {
  const Scalar value = node.kind == Node::Kind::scalar ? scalar_value(node) : Scalar(Null{});
  if (const auto* real = std::get_if<double>(&value))
    out = *real;
  else if (const auto* whole = std::get_if<int64_t>(&value))
    out = static_cast<double>(*whole);
  else if (std::holds_alternative<Overflow>(value))
    out = node.text.starts_with('-') ? -std::numeric_limits<double>::infinity()
                                     : std::numeric_limits<double>::infinity();
  else if (std::holds_alternative<Underflow>(value)) {
    diagnostics.report(Kind::out_of_range, node.where,
                       fmt::format("{}: {} is closer to 0 than a 64-bit number can be", key.path,
                                   diag::printable(node.text, 40)),
                       "write 0, or a larger number");
    return false;
  } else {
    not_a_number(node, key, wanted, diagnostics);
    return false;
  }
  return in_range(node, key, out, diagnostics);
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t' && c != '\r') || byte == 0x7f;
}

bool is_identifier(std::string_view text) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return std::all_of(text.begin(), text.end(), good) && !text.starts_with('.') && !text.starts_with('-') &&
         text.size() <= 128;
}

bool text_allowed(const Node& node, const KeyRow& key, diag::Diagnostics& diagnostics) {
  if (node.text.empty() && key.rule.text != Rule::Text::any) {
    diagnostics.report(Kind::empty_value, node.where, key.path + " is empty");
    return false;
  }
  if (std::any_of(node.text.begin(), node.text.end(), is_control) ||
      runtime::find_malformed_utf8(node.text)) {
    diagnostics.report(Kind::bad_name, node.where, key.path + " contains control characters", "remove them");
    return false;
  }
  if (key.rule.text == Rule::Text::identifier && !is_identifier(node.text)) {
    diagnostics.report(
        Kind::bad_name, node.where,
        fmt::format("{} \"{}\" must be made of A-Z a-z 0-9 . _ - (at most 128), and not begin with . or -",
                    key.path, diag::printable(node.text)));
    return false;
  }
  return true;
}

bool text(const Node& node, const KeyRow& key, std::string_view wanted, std::string& out,
          diag::Diagnostics& diagnostics) {
  const Scalar value = scalar_value(node);
  if (node.kind != Node::Kind::scalar || !std::holds_alternative<std::string>(value)) {
    const bool quotable = node.kind == Node::Kind::scalar && !std::holds_alternative<Null>(value);
    wrong_type(node, key, wanted, diagnostics,
               quotable
                   ? fmt::format("write \"{}\" in quotes if you mean the text", diag::printable(node.text))
                   : "");
    return false;
  }
  if (!text_allowed(node, key, diagnostics)) return false;
  out = node.text;
  return true;
}

// Text that does not look like a number.
bool is_word(const Node& node) {
  return node.kind == Node::Kind::scalar && std::holds_alternative<std::string>(scalar_value(node)) &&
         !looks_like_number(node.text);
}

// For a word, under a key that takes a number or auto.
bool is_auto(const Node& node, const KeyRow& key, std::string_view wanted, diag::Diagnostics& diagnostics) {
  if (node.text == "auto" && !node.quoted) return true;
  static constexpr std::array<EnumValue, 1> kWords = {{{"auto", ""}}};
  const std::string nearest = diag::nearest(node.text, spellings(kWords));
  wrong_type(node, key, wanted, diagnostics,
             node.text == "auto" ? "write auto without quotes"
             : nearest.empty()   ? ""
                                 : "did you mean auto?");
  return false;
}

// "3" or "0-3"; nullopt where `text` is neither, or a number has more than four digits.
std::optional<std::pair<int, int>> core_range(std::string_view text) {
  const auto number = [](std::string_view digits) -> std::optional<int> {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool good = error == std::errc() && end == digits.data() + digits.size() && digits.size() <= 4;
    return good && digits[0] != '-' ? std::optional(value) : std::nullopt;
  };
  const size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  return first && last ? std::optional(std::pair(*first, *last)) : std::nullopt;
}

// Adds one element of a list of cores.
bool add_cores(const Node& node, const KeyRow& key, std::vector<int>& numbers,
               diag::Diagnostics& diagnostics) {
  const auto range = node.kind == Node::Kind::scalar ? core_range(node.text) : std::nullopt;
  if (!range) {
    wrong_type(node, key, "none, cores such as 3 or 0-3, or a list of them", diagnostics);
    return false;
  }
  const auto [first, last] = *range;
  if (last < first) {
    diagnostics.report(Kind::out_of_range, node.where,
                       fmt::format("{}: the range {} ends before it begins", key.path, node.text),
                       fmt::format("write {}-{}", last, first));
    return false;
  }
  if (!in_range(node, key, last, diagnostics)) return false;
  for (int core = first; core <= last; ++core) {
    if (std::ranges::find(numbers, core) != numbers.end()) {
      diagnostics.report(Kind::repeated_core, node.where,
                         fmt::format("{} names core {} twice", key.path, core), "name it once");
      return false;
    }
    numbers.push_back(core);
  }
  return true;
}

}  // namespace

bool convert(const Node& node, const KeyRow& key, bool& out, diag::Diagnostics& diagnostics) {
  const Scalar value = node.kind == Node::Kind::scalar ? scalar_value(node) : Scalar(Null{});
  if (const bool* flag = std::get_if<bool>(&value)) {
    out = *flag;
    return true;
  }
  static const std::vector<std::string> yes = {"yes", "Yes", "YES", "on", "On", "ON", "y", "1"};
  static const std::vector<std::string> no = {"no", "No", "NO", "off", "Off", "OFF", "n", "0"};
  std::string suggestion;
  if (std::find(yes.begin(), yes.end(), node.text) != yes.end()) suggestion = "write true";
  if (std::find(no.begin(), no.end(), node.text) != no.end()) suggestion = "write false";
  if (node.quoted && (node.text == "true" || node.text == "false"))
    suggestion = fmt::format("write {} without quotes", node.text);
  wrong_type(node, key, "true or false", diagnostics, std::move(suggestion));
  return false;
}

bool convert(const Node& node, const KeyRow& key, int64_t& out, diag::Diagnostics& diagnostics) {
  constexpr std::string_view wanted = "a whole number";
  const Scalar value = node.kind == Node::Kind::scalar ? scalar_value(node) : Scalar(Null{});
  if (const auto* real = std::get_if<double>(&value)) {
    const bool whole = key.rule.allows(*real) && *real == static_cast<double>(static_cast<int64_t>(*real));
    wrong_type(node, key, wanted, diagnostics,
               whole ? fmt::format("write {}", static_cast<int64_t>(*real)) : "");
    return false;
  }
  double checked = 0;
  if (!number(node, key, wanted, checked, diagnostics)) return false;
  out = std::get<int64_t>(value);
  return true;
}

bool convert(const Node& node, const KeyRow& key, BatchSize& out, diag::Diagnostics& diagnostics) {
  if (!is_word(node)) return convert(node, key, out.value, diagnostics);
  if (!is_auto(node, key, "a whole number or auto", diagnostics)) return false;
  out = {};
  return true;
}

bool convert(const Node& node, const KeyRow& key, double& out, diag::Diagnostics& diagnostics) {
  double value = 0;
  if (!number(node, key, "a number", value, diagnostics)) return false;
  out = value;
  return true;
}

bool convert(const Node& node, const KeyRow& key, LearningRate& out, diag::Diagnostics& diagnostics) {
  out.automatic = is_word(node);
  return out.automatic ? is_auto(node, key, "a number or auto", diagnostics)
                       : convert(node, key, out.value, diagnostics);
}

bool convert(const Node& node, const KeyRow& key, Share& out, diag::Diagnostics& diagnostics) {
  const Scalar value = node.kind == Node::Kind::scalar ? scalar_value(node) : Scalar(Null{});
  if (const bool* all = std::get_if<bool>(&value)) {
    out.value = *all ? 1 : 0;
    return true;
  }
  return number(node, key, "true, false or a share such as 0.5", out.value, diagnostics);
}

bool convert(const Node& node, const KeyRow& key, std::string& out, diag::Diagnostics& diagnostics) {
  return text(node, key, "text", out, diagnostics);
}

bool convert(const Node& node, const KeyRow& key, StringList& out, diag::Diagnostics& diagnostics) {
  constexpr std::string_view wanted = "text or a list of texts";
  StringList list;
  bool good = true;
  const bool is_list = node.kind == Node::Kind::list;
  for (const Node& item : is_list ? std::span<const Node>(node.items) : std::span<const Node>(&node, 1)) {
    list.emplace_back();
    good &= text(item, key, wanted, list.back(), diagnostics);
  }
  if (is_list && list.empty() && key.rule.text == Rule::Text::not_empty) {
    diagnostics.report(Kind::empty_value, node.where, key.path + " is empty");
    return false;
  }
  if (good) out = std::move(list);
  return good;
}

bool convert(const Node& node, const KeyRow& key, CoreList& out, diag::Diagnostics& diagnostics) {
  if (is_word(node) && !node.quoted && node.text == "none") {
    out = {};
    return true;
  }
  if (node.kind == Node::Kind::list && node.items.empty()) {
    diagnostics.report(Kind::empty_value, node.where, key.path + " is empty", "write none");
    return false;
  }
  CoreList list;
  const bool is_list = node.kind == Node::Kind::list;
  bool good = true;
  for (const Node& item : is_list ? std::span<const Node>(node.items) : std::span<const Node>(&node, 1))
    good &= add_cores(item, key, list.numbers, diagnostics);
  if (good) out = std::move(list);
  return good;
}

bool convert(const Node& node, const KeyRow& key, Betas& out, diag::Diagnostics& diagnostics) {
  constexpr std::string_view wanted = "a list of two numbers";
  if (node.kind != Node::Kind::list || node.items.size() != out.size()) {
    wrong_type(node, key, wanted, diagnostics, "write [0.9, 0.95]");
    return false;
  }
  Betas betas{};
  bool good = true;
  for (size_t i = 0; i < betas.size(); ++i) good &= number(node.items[i], key, wanted, betas[i], diagnostics);
  if (good) out = betas;
  return good;
}

bool convert(const Node& node, const KeyRow& key, Numbers& out, diag::Diagnostics& diagnostics) {
  constexpr std::string_view wanted = "a list of numbers";
  if (node.kind != Node::Kind::list) {
    wrong_type(node, key, wanted, diagnostics);
    return false;
  }
  Numbers numbers(node.items.size());
  bool good = true;
  for (size_t i = 0; i < numbers.size(); ++i)
    good &= number(node.items[i], key, wanted, numbers[i], diagnostics);
  if (good) out = std::move(numbers);
  return good;
}

int convert_word(const Node& node, const KeyRow& key, std::span<const EnumValue> values,
                 diag::Diagnostics& diagnostics) {
  const std::vector<std::string> words = spellings(values);
  if (node.kind == Node::Kind::null) {
    wrong_type(node, key, diag::one_of(words), diagnostics);
    return -1;
  }
  const auto found = std::find(words.begin(), words.end(), node.text);
  if (node.kind == Node::Kind::scalar && found != words.end()) return static_cast<int>(found - words.begin());
  if (node.kind != Node::Kind::scalar) {
    wrong_type(node, key, diag::one_of(words), diagnostics);
    return -1;
  }
  std::string help = instead_of_word(key.path, node.text);
  if (const std::string meant = diag::nearest(node.text, words); help.empty() && !meant.empty())
    help = fmt::format("did you mean {}?", meant);
  diagnostics.report(Kind::unknown_value, node.where,
                     fmt::format("{} takes {}, not {}", key.path, diag::one_of(words), describe(node)), help);
  return -1;
}

namespace {

constexpr std::array<EnumValue, 5> kRecomputeParts = {
    {{"norm", ""}, {"act", ""}, {"attn", ""}, {"mlp", ""}, {"qk_norm", ""}}};

// "mlp" or "norm, act" as the list that is meant, [norm, act]; empty where a word is no part.
std::string parts_as_list(std::string text) {
  const std::vector<std::string> words = spellings(kRecomputeParts);
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream stream(text);
  std::vector<std::string> parts;
  for (std::string word; stream >> word;) {
    if (std::find(words.begin(), words.end(), word) == words.end()) return "";
    parts.push_back(word);
  }
  return parts.empty() ? "" : fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

bool convert(const Node& node, const KeyRow& key, Recompute& out, diag::Diagnostics& diagnostics) {
  using Mode = Recompute::Mode;
  constexpr std::array<EnumValue, 3> kModes = {{{"none", ""}, {"block", ""}, {"auto", ""}}};
  if (node.kind != Node::Kind::list) {
    const std::string list = node.kind == Node::Kind::scalar ? parts_as_list(node.text) : "";
    if (!list.empty()) {
      wrong_type(node, key, "none, block, auto or a list of parts", diagnostics,
                 fmt::format("write {}", list));
      return false;
    }
    const int mode = convert_word(node, key, kModes, diagnostics);
    if (mode >= 0)
      out = {.mode = std::array{Mode::none, Mode::block, Mode::automatic}[static_cast<size_t>(mode)]};
    return mode >= 0;
  }
  if (node.items.empty()) {
    diagnostics.report(Kind::empty_value, node.where, key.path + " is empty", "write none");
    return false;
  }
  Recompute list{.mode = Mode::list};
  bool* const parts[] = {&list.norm, &list.act, &list.attn, &list.mlp, &list.qk_norm};
  bool good = true;
  for (const Node& item : node.items) {
    const int part = convert_word(item, key, kRecomputeParts, diagnostics);
    if (part >= 0)
      *parts[part] = true;
    else
      good = false;
  }
  if (good) out = list;
  return good;
}

std::string range_text(const Rule& rule) {
  if (!rule.low_open && !rule.high_open) return fmt::format("between {} and {}", rule.low, rule.high);
  return fmt::format("{} {} and {} {}", rule.low_open ? "above" : "at least", rule.low,
                     rule.high_open ? "below" : "at most", rule.high);
}

std::vector<std::string> spellings(std::span<const EnumValue> values) {
  std::vector<std::string> words;
  for (const EnumValue& value : values) words.emplace_back(value.spelling);
  return words;
}

}  // namespace hydrac::spec
