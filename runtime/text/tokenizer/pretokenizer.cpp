#include "runtime/text/tokenizer/pretokenizer.h"
#include "runtime/base/quote.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/base/utf8.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"

namespace hydrac::runtime {

namespace {

// ByteLevel with use_regex splits by this: GPT-2's published pattern.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitBehavior parse_behavior(const std::string& name, const std::string& shown_as) {
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw InputError(fmt::format("{}: the Split behavior {} is unknown", shown_as, in_quotes(name)));
}

struct Span {
  size_t begin;
  size_t end;
  bool is_match;
};

// Calls visit(Span) for the matches of `regex` and the gaps between them, in order. After a match an empty
// match at its end does not count, as in Hugging Face's loop.
template <typename Visit>
void spans_of(const Regex& regex, std::string_view text, Regex::Scratch& scratch, Visit&& visit) {
  size_t covered = 0, from = 0;
  bool matched_before = false;
  while (from <= text.size()) {
    const auto match = regex.find(text, from, scratch);
    if (!match) break;
    if (match->begin == match->end && matched_before && match->end == covered) {
      if (from >= text.size()) break;
      next_code_point(text, from);
      continue;
    }
    if (covered != match->begin) visit(Span{covered, match->begin, false});
    visit(Span{match->begin, match->end, true});
    covered = from = match->end;
    matched_before = true;
  }
  if (covered != text.size()) visit(Span{covered, text.size(), false});
}

// The same for a literal delimiter.
template <typename Visit>
void spans_of(const std::string& literal, std::string_view text, Regex::Scratch&, Visit&& visit) {
  size_t covered = 0;
  while (!literal.empty()) {
    const size_t found = text.find(literal, covered);
    if (found == std::string_view::npos) break;
    if (covered != found) visit(Span{covered, found, false});
    covered = found + literal.size();
    visit(Span{found, covered, true});
  }
  if (covered != text.size()) visit(Span{covered, text.size(), false});
}

// Joins spans to pieces, as `behavior` says; emit(begin, end) for each.
template <typename Emit>
class Joiner {
 public:
  Joiner(SplitBehavior behavior, Emit& emit) : behavior_(behavior), emit_(emit) {}

  void push(const Span& span) {
    if (behavior_ == SplitBehavior::isolated) return emit_(span.begin, span.end);
    if (behavior_ == SplitBehavior::removed) return span.is_match ? void() : emit_(span.begin, span.end);
    if (!held_ || !joins(span.is_match)) {
      flush();
      held_begin_ = span.begin;
    }
    held_ = true;
    held_end_ = span.end;
    last_is_match_ = span.is_match;
  }
  void flush() {
    if (held_) emit_(held_begin_, held_end_);
    held_ = false;
  }

 private:
  bool joins(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::contiguous:
        return is_match == last_is_match_;
      case SplitBehavior::merged_with_previous:
        return is_match && !last_is_match_;
      default:  // merged_with_next
        return !is_match && last_is_match_;
    }
  }

  SplitBehavior behavior_;
  Emit& emit_;
  bool held_ = false;  // a piece that the next span may still extend
  size_t held_begin_ = 0, held_end_ = 0;
  bool last_is_match_ = false;
};

}  // namespace

PreTokenizer::PreTokenizer(const nlohmann::json& config, const std::string& shown_as) {
  if (!config.is_object()) {
    throw InputError(fmt::format(
        "{}: \"pre_tokenizer\" is not an object; byte-level BPE needs ByteLevel there", shown_as));
  }
  if (json_string(config, "type", "", shown_as) != "Sequence") {
    add_stage(config, shown_as, true);
    return;
  }
  const nlohmann::json& members =
      json_container(config, "pretokenizers", nlohmann::json::value_t::array, shown_as);
  if (members.empty()) throw InputError(fmt::format("{}: the pre-tokenizer Sequence is empty", shown_as));
  for (size_t i = 0; i < members.size(); ++i) add_stage(members[i], shown_as, i + 1 == members.size());
}

void PreTokenizer::add_stage(const nlohmann::json& config, const std::string& shown_as, bool last) {
  if (!config.is_object()) throw InputError(fmt::format("{}: a pre-tokenizer is not an object", shown_as));
  const std::string type = json_string(config, "type", "", shown_as);
  if ((type == "ByteLevel") != last) {
    throw InputError(
        fmt::format("{}: the last pre-tokenizer must be ByteLevel, and only the last; found {}{}", shown_as,
                    in_quotes(type), last ? " at the end" : " before it"));
  }
  if (type == "ByteLevel") {
    add_byte_level(config, shown_as);
  } else if (type == "Split") {
    add_split(config, shown_as);
  } else if (type == "Digits") {
    const bool individual = json_bool(config, "individual_digits", false, shown_as);
    stages_.push_back(Split{Regex("\\p{N}", shown_as),
                            individual ? SplitBehavior::isolated : SplitBehavior::contiguous, false});
  } else {
    throw InputError(
        fmt::format("{}: the pre-tokenizer {} is not supported; ByteLevel, Split, Digits and Sequence are",
                    shown_as, in_quotes(type)));
  }
}

void PreTokenizer::add_split(const nlohmann::json& config, const std::string& shown_as) {
  const SplitBehavior behavior = parse_behavior(json_string(config, "behavior", "", shown_as), shown_as);
  const bool invert = json_bool(config, "invert", false, shown_as);
  const nlohmann::json& pattern =
      json_container(config, "pattern", nlohmann::json::value_t::object, shown_as);
  if (pattern.contains("Regex")) {
    stages_.push_back(Split{Regex(json_string(pattern, "Regex", "", shown_as), shown_as), behavior, invert});
  } else if (pattern.contains("String")) {
    stages_.push_back(Split{json_string(pattern, "String", "", shown_as), behavior, invert});
  } else {
    throw InputError(fmt::format("{}: a Split pattern is neither a \"Regex\" nor a \"String\"", shown_as));
  }
}

void PreTokenizer::add_byte_level(const nlohmann::json& config, const std::string& shown_as) {
  if (json_bool(config, "add_prefix_space", true, shown_as)) stages_.push_back(PrefixSpace{});
  if (json_bool(config, "use_regex", true, shown_as)) {
    stages_.push_back(Split{Regex(kGpt2Pattern, shown_as), SplitBehavior::isolated, false});
  }
}

template <typename Emit>
void PreTokenizer::apply(const Split& split, std::string_view text, Regex::Scratch& scratch, Emit&& emit) {
  Joiner joiner(split.behavior, emit);
  const auto take = [&](Span span) {
    span.is_match ^= split.invert;
    joiner.push(span);
  };
  std::visit([&](const auto& pattern) { spans_of(pattern, text, scratch, take); }, split.pattern);
  joiner.flush();
}

void PreTokenizer::run(size_t stage, std::string_view text, Regex::Scratch& scratch, SinkRef sink) const {
  if (text.empty()) return;
  if (stage == stages_.size()) return sink.call(sink.target, text);
  if (std::holds_alternative<PrefixSpace>(stages_[stage])) {
    if (text.front() == ' ') return run(stage + 1, text, scratch, sink);
    std::string prefixed(1, ' ');
    prefixed += text;
    return run(stage + 1, prefixed, scratch, sink);
  }
  apply(std::get<Split>(stages_[stage]), text, scratch,
        [&](size_t begin, size_t end) { run(stage + 1, text.substr(begin, end - begin), scratch, sink); });
}

}  // namespace hydrac::runtime
