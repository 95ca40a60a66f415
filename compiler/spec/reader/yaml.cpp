#include "spec/reader/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "diag/render.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

constexpr size_t kDeepest = 16;

// Ends the parse of a text whose rest is not worth reading; the diagnostic is already reported.
struct Abort {};

// A map or list being read.
struct Open {
  Node node;
  std::string key;  // of a map: the key whose value comes next
  diag::Location key_where;
  bool has_key = false;
  bool skip_value = false;                     // the key was refused: read its value, then drop it
  std::map<std::string, diag::Location> seen;  // of a map: its keys so far
};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const diag::Location& start, diag::Diagnostics& diagnostics)
      : start_(start), diagnostics_(diagnostics) {}

  Node take_root() { return std::move(root_); }

  diag::Location at(const YAML::Mark& mark) const {
    if (mark.is_null()) return start_;
    return {start_.file, start_.line + mark.line,
            mark.line == 0 ? start_.col + mark.column : mark.column + 1};
  }

  void refuse_alias(const diag::Location& where) {
    diagnostics_.report(Kind::yaml_alias, where, "aliases (*name) are not part of the spec language",
                        "write the value itself; put text that begins with * in quotes");
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    if (expects_key()) return take_key(mark, "null", true);
    add({.kind = Node::Kind::null, .where = place_of_null(at(mark))});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse_alias(at(mark));
    throw Abort{};
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    const bool quoted = tag == "!";
    if (expects_key()) return take_key(mark, value, !quoted);
    add({.kind = Node::Kind::scalar, .where = at(mark), .text = value, .quoted = quoted});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::list);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == Node::Kind::map && !open_.back().has_key;
  }

  // A value that is not there gets the place of whatever comes next; its key tells more.
  diag::Location place_of_null(diag::Location where) const {
    const bool misplaced =
        !open_.empty() && open_.back().has_key && open_.back().key_where.line != where.line;
    return misplaced ? open_.back().key_where : where;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (expects_key()) {
      diagnostics_.report(Kind::yaml_syntax, at(mark), "a key must be a word, not a list or a map",
                          "if it is a value, its closing ] or } is missing");
      throw Abort{};
    }
    if (open_.size() == kDeepest) {
      diagnostics_.report(Kind::yaml_too_deep, at(mark),
                          fmt::format("maps and lists are nested more than {} deep", kDeepest));
      throw Abort{};
    }
    open_.emplace_back();
    open_.back().node.kind = kind;
    open_.back().node.where = at(mark);
  }

  void close() {
    Node node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void take_key(const YAML::Mark& mark, const std::string& key, bool plain) {
    Open& map = open_.back();
    map.key = key;
    map.key_where = at(mark);
    map.has_key = true;
    map.skip_value = false;
    if (plain && key == "<<") {
      diagnostics_.report(Kind::yaml_alias, at(mark), "merge keys (<<) are not part of the spec language",
                          "use `extends: base.yaml` to build on another spec");
      map.skip_value = true;
      return;
    }
    const auto [first, is_new] = map.seen.emplace(key, at(mark));
    if (is_new) return;
    diagnostics_.report(
        Kind::duplicate_key, at(mark),
        fmt::format("{} is written twice; first in line {}", diag::printable(key), first->second.line),
        "remove one of the two");
    map.skip_value = true;
  }

  void add(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Node::Kind::list) {
      parent.node.items.push_back(std::move(node));
      return;
    }
    parent.has_key = false;
    if (!parent.skip_value)
      parent.node.entries.push_back({std::move(parent.key), parent.key_where, std::move(node)});
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor == 0) return;
    diagnostics_.report(Kind::yaml_alias, at(mark), "anchors (&name) are not part of the spec language",
                        "write the value where it is needed; put text that begins with & in quotes");
    throw Abort{};
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    diagnostics_.report(Kind::yaml_tag, at(mark), "tags (!name) are not part of the spec language",
                        "remove the tag; put text that begins with ! in quotes");
    throw Abort{};
  }

  diag::Location start_;
  diag::Diagnostics& diagnostics_;
  Node root_;
  std::vector<Open> open_;
};

bool is_blank(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == std::string_view::npos || line[first] == '#';
}

// A colon where no key can stand: mostly the line before is what is wrong, and its value goes on here.
std::string colon_help(const diag::Location& where, const diag::Diagnostics& diagnostics) {
  const std::string_view here = diagnostics.source_line(where);
  const size_t first_colon = here.find(": ");
  if (first_colon != std::string_view::npos && first_colon + 1 < static_cast<size_t>(where.col))
    return "put text that has a colon in quotes";
  diag::Location before = where;
  do --before.line;
  while (before.line > 0 && is_blank(diagnostics.source_line(before)));
  if (before.line == 0) return "";
  std::string_view line = diagnostics.source_line(before);
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return fmt::format("line {} is no `key: value`", before.line);
  if (line.find(": ") == std::string_view::npos && line.find_last_not_of(" \r") != colon)
    return fmt::format("in line {} a space is missing behind the colon", before.line);
  if (here.find_first_not_of(' ') > line.find_first_not_of(' '))
    return fmt::format("line {} is indented deeper than line {}, which has a value already", where.line,
                       before.line);
  return "";
}

// Finds, in a text that is no YAML, the quote that was meant to end in its line and did not: it goes on to
// the end, or to another value's quote, behind which that value's text stands.
class OpenQuote {
 public:
  // Its place, or nowhere. `start`: that of the text.
  static diag::Location find(std::string_view text, const diag::Location& start) {
    OpenQuote scan(text);
    while (scan.at_ < text.size() && !scan.found_) scan.step();
    if (!scan.found_ && !scan.quote_) return {};
    const size_t at = *scan.quote_;
    const auto line =
        static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
    const size_t line_start = line == 0 ? 0 : text.rfind('\n', at) + 1;
    return {start.file, start.line + line, (line == 0 ? start.col : 1) + static_cast<int>(at - line_start)};
  }

 private:
  explicit OpenQuote(std::string_view text) : text_(text) {}

  void step() {
    const char c = text_[at_++];
    if (quote_) return in_quotes(c);
    const char before = at_ < 2 ? '\n' : text_[at_ - 2];
    if ((c == '"' || c == '\'') && begins_value_) {
      quote_ = at_ - 1;
    } else if (c == '#' && (before == ' ' || before == '\n')) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ') {
      begins_value_ |= before == ':' || before == '-';
    } else {
      begins_value_ = c == '\n' || c == '[' || c == '{' || c == ',';
    }
  }

  void in_quotes(char c) {
    const char mark = text_[*quote_];
    if (c == '\n') crosses_lines_ = true;
    if (mark == '"' && c == '\\') ++at_;
    if (c != mark) return;
    const char next = at_ < text_.size() ? text_[at_] : '\n';
    found_ = crosses_lines_ && std::string_view(" \n\r,]}:").find(next) == std::string_view::npos;
    if (!found_) quote_.reset();
    crosses_lines_ = begins_value_ = false;
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::optional<size_t> quote_;  // where the one begins that is open
  bool begins_value_ = true;     // a quote here would begin one
  bool crosses_lines_ = false, found_ = false;
};

std::string syntax_help(const std::string& message, const diag::Location& where,
                        const diag::Diagnostics& diagnostics) {
  if (diagnostics.source_line(where).find('\t') != std::string_view::npos)
    return "indent with spaces, not with tabs";
  if (message == "end of map flow not found") return "a { before here is not closed, or a comma is missing";
  if (message == "end of sequence flow not found")
    return "a [ before here is not closed, or a comma is missing";
  return message == "illegal map value" ? colon_help(where, diagnostics) : "";
}

}  // namespace

std::optional<Node> parse_yaml(const std::string& text, const diag::Location& start,
                               diag::Diagnostics& diagnostics) {
  std::istringstream stream(text);
  TreeBuilder builder(start, diagnostics);
  TreeBuilder rest(start, diagnostics);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (parser.HandleNextDocument(rest)) {
      diagnostics.report(Kind::yaml_documents, rest.take_root().where,
                         "a spec is one YAML document; here begins another", "put it in a file of its own");
      return std::nullopt;
    }
  } catch (const YAML::Exception& error) {
    const diag::Location where = builder.at(error.mark);
    // Anchors are refused, so every alias is one of an unknown anchor; a glob without quotes looks like that.
    if (error.msg.starts_with("the referenced anchor is not defined")) {
      builder.refuse_alias(where);
      return std::nullopt;
    }
    if (const diag::Location quote = OpenQuote::find(text, start); quote.known())
      diagnostics.report(Kind::yaml_syntax, quote, "the text that begins with this quote does not end",
                         "write another quote behind it");
    else
      diagnostics.report(Kind::yaml_syntax, where, "this is no YAML: " + error.msg,
                         syntax_help(error.msg, where, diagnostics));
    return std::nullopt;
  } catch (const Abort&) {
    return std::nullopt;
  }
  return builder.take_root();
}

}  // namespace hydrac::spec
