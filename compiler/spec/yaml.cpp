#include "spec/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
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
    const bool tab = diagnostics.source_line(where).find('\t') != std::string_view::npos;
    diagnostics.report(Kind::yaml_syntax, where, "this is no YAML: " + error.msg,
                       tab ? "indent with spaces, not with tabs" : "");
    return std::nullopt;
  } catch (const Abort&) {
    return std::nullopt;
  }
  return builder.take_root();
}

}  // namespace hydrac::spec
