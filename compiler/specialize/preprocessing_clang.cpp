#include "specialize/preprocessing.h"

#include <clang/Lex/MacroArgs.h>
#include <clang/Lex/PPCallbacks.h>
#include <clang/Lex/Preprocessor.h>

#include <algorithm>

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

struct PreprocessingWatch::State {
  struct Group {
    std::vector<std::pair<SourceLocation, bool>> branches;
    SourceLocation end;
  };
  struct Expansion {
    SourceRange range;
    SourceLocation definition;
    std::vector<std::pair<tok::TokenKind, std::string>> tokens;
  };
  struct Include {
    SourceLocation from;
    std::string name, path;
  };
  const Scope& scope;
  std::map<SourceLocation, Group> groups;  // by the place of #if
  std::vector<Include> includes;
  std::vector<FileID> finished;
  std::map<SourceLocation, Expansion> expansions;
};

namespace {

using State = PreprocessingWatch;

template <typename Watched>
class Callbacks : public PPCallbacks {
 public:
  explicit Callbacks(Watched& state) : state_(state) {}

  void FileChanged(SourceLocation, FileChangeReason reason, SrcMgr::CharacteristicKind,
                   FileID left) override {
    if (reason == ExitFile && left.isValid()) state_.finished.push_back(left);
  }
  void InclusionDirective(SourceLocation hash, const Token&, StringRef name, bool is_angled, CharSourceRange,
                          OptionalFileEntryRef, StringRef, StringRef, const clang::Module*, bool,
                          SrcMgr::CharacteristicKind) override {
    const std::string quoted = is_angled ? "<" + name.str() + ">" : "\"" + name.str() + "\"";
    state_.includes.push_back({hash, quoted, name.str()});
  }
  void If(SourceLocation at, SourceRange, ConditionValueKind value) override { begin(at, value == CVK_True); }
  void Ifdef(SourceLocation at, const Token&, const MacroDefinition& macro) override {
    begin(at, bool(macro));
  }
  void Ifndef(SourceLocation at, const Token&, const MacroDefinition& macro) override { begin(at, !macro); }
  void Elif(SourceLocation at, SourceRange, ConditionValueKind value, SourceLocation group) override {
    state_.groups[group].branches.emplace_back(at, value == CVK_True);
  }
  void Else(SourceLocation at, SourceLocation group) override {
    auto& branches = state_.groups[group].branches;
    const bool taken = std::none_of(branches.begin(), branches.end(), [](const auto& b) { return b.second; });
    branches.emplace_back(at, taken);
  }
  void Endif(SourceLocation at, SourceLocation group) override { state_.groups[group].end = at; }
  void MacroExpands(const Token& name, const MacroDefinition& macro, SourceRange range,
                    const MacroArgs*) override {
    if (name.getLocation().isMacroID()) return;
    state_.expansions[name.getLocation()] = {range, macro.getMacroInfo()->getDefinitionLoc(), {}};
  }

 private:
  void begin(SourceLocation at, bool taken) { state_.groups[at].branches.emplace_back(at, taken); }
  Watched& state_;
};

using Tokens = std::vector<std::pair<tok::TokenKind, std::string>>;

// [4 + 1] becomes [5].
Tokens with_sums_of_indices(const Tokens& tokens) {
  Tokens result;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto is = [&](std::size_t k, tok::TokenKind kind) {
      return i + k < tokens.size() && tokens[i + k].first == kind;
    };
    result.push_back(tokens[i]);
    if (is(0, tok::l_square) && is(1, tok::numeric_constant) && is(2, tok::plus) &&
        is(3, tok::numeric_constant) && is(4, tok::r_square)) {
      result.emplace_back(tok::numeric_constant, std::to_string(std::stoll(tokens[i + 1].second) +
                                                                std::stoll(tokens[i + 3].second)));
      i += 3;
    }
  }
  return result;
}

// Adjacent literals as one, then a line for each line of PTX; long ones break behind a comma.
std::string string_lines(const std::string& content) {
  constexpr std::size_t kWidth = 90;
  std::string text;
  std::size_t at = 0;
  while (at < content.size()) {
    std::size_t end = content.find("\\n", at);
    end = end == std::string::npos ? content.size() : end + 2;
    while (end - at > kWidth) {
      const std::size_t comma = content.rfind(", ", at + kWidth);
      if (comma == std::string::npos || comma <= at) break;
      text += "\"" + content.substr(at, comma + 2 - at) + "\"\n";
      at = comma + 2;
    }
    text += "\"" + content.substr(at, end - at) + "\"\n";
    at = end;
  }
  return text;
}

std::string text_of(const Tokens& all) {
  const Tokens tokens = with_sums_of_indices(all);
  std::string text;
  for (std::size_t i = 0; i < tokens.size();) {
    if (tokens[i].first != tok::string_literal) {
      text += (text.empty() ? "" : " ") + tokens[i++].second;
      continue;
    }
    std::string content;
    for (; i < tokens.size() && tokens[i].first == tok::string_literal; ++i)
      content += tokens[i].second.substr(1, tokens[i].second.size() - 2);
    const std::string lines = string_lines(content);
    const bool is_one = lines.find('\n') + 1 == lines.size();
    text += (is_one ? " " : "\n") + (is_one ? lines.substr(0, lines.size() - 1) : lines);
  }
  return text;
}

}  // namespace

std::vector<Edit> conditional_edits(const Preprocessing& preprocessing, int file, const std::string& text) {
  std::vector<Edit> edits;
  for (const auto& [place, conditional] : preprocessing.conditionals) {
    if (place.file != file) continue;
    const auto& branches = conditional.branches;
    for (std::size_t i = 0; i < branches.size(); ++i) {
      const std::size_t next = i + 1 < branches.size() ? branches[i + 1].begin : conditional.end_begin;
      edits.push_back({branches[i].begin, branches[i].taken ? next_line(text, branches[i].begin) : next, ""});
    }
    edits.push_back({conditional.end_begin, conditional.end, ""});
  }
  return edits;
}

PreprocessingWatch::PreprocessingWatch(const Scope& scope) : state_(new State{scope, {}, {}, {}, {}}) {}
PreprocessingWatch::~PreprocessingWatch() = default;

void PreprocessingWatch::attach(Preprocessor& preprocessor) {
  State* state = state_.get();
  preprocessor.addPPCallbacks(std::make_unique<Callbacks<State>>(*state));
  preprocessor.setTokenWatcher([state, &preprocessor](const Token& token) {
    if (!token.getLocation().isMacroID() || token.isAnnotation()) return;
    const auto found =
        state->expansions.find(preprocessor.getSourceManager().getExpansionLoc(token.getLocation()));
    if (found != state->expansions.end())
      found->second.tokens.emplace_back(token.getKind(), preprocessor.getSpelling(token));
  });
}

Preprocessing PreprocessingWatch::result(const Places& places) {
  Preprocessing result;
  for (const FileID file : state_->finished) {
    const auto start = places.of(places.ast().sources().getLocForStartOfFile(file));
    if (start) result.files.push_back(start->file);
  }
  for (const auto& include : state_->includes) {
    const bool is_new =
        std::find(result.includes.begin(), result.includes.end(), include.name) == result.includes.end();
    if (places.of(include.from) && state_->scope.number_of(include.path) < 0 && is_new)
      result.includes.push_back(include.name);
  }
  for (const auto& [at, group] : state_->groups) {
    const auto place = places.of(at), end = places.of(group.end);
    if (!place || !end) continue;
    const std::string& text = places.scope().text(place->file);
    Preprocessing::Conditional conditional;
    for (const auto& [location, taken] : group.branches)
      conditional.branches.push_back({line_begin(text, places.of(location)->offset), taken});
    conditional.end_begin = line_begin(text, end->offset);
    conditional.end = next_line(text, end->offset);
    result.conditionals[*place] = conditional;
  }
  for (const auto& [at, expansion] : state_->expansions) {
    const auto place = places.of(at), definition = places.of(expansion.definition);
    if (!place || !definition) continue;
    // The comment of the definition comes along.
    const std::string& text = places.scope().text(definition->file);
    const std::size_t line = line_begin(text, definition->offset),
                      comment = comment_begin(text, definition->offset);
    result.expansions[place->file].push_back(
        {place->offset, places.behind(expansion.range.getEnd()),
         text.substr(comment, line - comment) + text_of(expansion.tokens)});
  }
  return result;
}

}  // namespace hydrac::specialize
