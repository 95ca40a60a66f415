#include "specialize/bind_conditions.h"
#include "specialize/visitor.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

class IfStatements : public Visitor {
 public:
  IfStatements(const Places& places, std::map<Place, const IfStmt*>& found)
      : places_(places), found_(found) {}

 private:
  void see(Stmt* statement) override {
    if (auto* found = dyn_cast<IfStmt>(statement)) {
      if (const auto place = places_.of(found->getIfLoc())) found_[*place] = found;
    }
  }

  const Places& places_;
  std::map<Place, const IfStmt*>& found_;
};

}  // namespace

void Conditions::enter(const Stmt* body) {
  IfStatements(places_, written_).walk(const_cast<Stmt*>(body));
  const auto begin = places_.of_use(body->getBeginLoc());
  body_begin_ = begin ? begin->offset : 0;
  body_end_ = places_.behind(body->getEndLoc());
}

std::optional<bool> Conditions::value_of(const Expr* condition) const {
  bool value = false;
  if (condition->isValueDependent() || !condition->EvaluateAsBooleanCondition(value, places_.ast().context()))
    return std::nullopt;
  return value;
}

std::optional<std::vector<Edit>> Conditions::fold(const BinaryOperator* operation) const {
  const auto begin = places_.of(operation->getBeginLoc());
  if (!begin || operation->isValueDependent()) return std::nullopt;
  const auto value = value_of(operation);
  if (!value) return std::vector<Edit>{};
  return std::vector<Edit>{
      {begin->offset, places_.behind(operation->getEndLoc()), *value ? "true" : "false"}};
}

std::optional<std::vector<Edit>> Conditions::without_left(const BinaryOperator* operation) const {
  const auto begin = places_.of(operation->getBeginLoc()),
             right = places_.of(operation->getRHS()->getBeginLoc());
  if (!begin || !right || operation->isValueDependent()) return std::nullopt;
  const bool neutral = operation->getOpcode() == BO_LAnd;
  if (value_of(operation->getLHS()) != neutral) return std::vector<Edit>{};
  return std::vector<Edit>{{begin->offset, right->offset, ""}};
}

std::optional<std::vector<Edit>> Conditions::without_right(const BinaryOperator* operation) const {
  if (!places_.of(operation->getBeginLoc()) || operation->isValueDependent()) return std::nullopt;
  const bool neutral = operation->getOpcode() == BO_LAnd;
  if (value_of(operation->getRHS()) != neutral) return std::vector<Edit>{};
  return std::vector<Edit>{
      {places_.behind(operation->getLHS()->getEndLoc()), places_.behind(operation->getEndLoc()), ""}};
}

std::optional<std::vector<Edit>> Conditions::choose(const ConditionalOperator* operation) const {
  const auto begin = places_.of(operation->getBeginLoc());
  if (!begin || operation->getCond()->isValueDependent()) return std::nullopt;
  const auto value = value_of(operation->getCond());
  const Expr* kept = value.value_or(true) ? operation->getTrueExpr() : operation->getFalseExpr();
  const auto from = places_.of(kept->getBeginLoc());
  if (!value || !from) return std::vector<Edit>{};
  std::vector<Edit> edits = {{begin->offset, from->offset, ""}};
  if (*value)
    edits.push_back({places_.behind(kept->getEndLoc()), places_.behind(operation->getEndLoc()), ""});
  return edits;
}

bool Conditions::keeps_one_word(const ConditionalOperator* operation) const {
  const Expr* kept = *value_of(operation->getCond()) ? operation->getTrueExpr() : operation->getFalseExpr();
  return isa<DeclRefExpr, MemberExpr, IntegerLiteral, FloatingLiteral, CallExpr,
             SubstNonTypeTemplateParmExpr>(as_written(kept));
}

bool Conditions::loses_parentheses(const ParenExpr* expression, const BinaryOperator* logical) const {
  const bool neutral = logical->getOpcode() == BO_LAnd;
  const auto left = value_of(logical->getLHS()), right = value_of(logical->getRHS());
  const Expr* kept = left == neutral ? logical->getRHS() : right == neutral ? logical->getLHS() : nullptr;
  if (!kept) return false;
  const auto* inner = dyn_cast<BinaryOperator>(as_written(kept));
  const Place open = *places_.of(expression->getLParen());
  const std::string& text = places_.scope().text(open.file);
  const std::string_view before(text.data(), text.find_last_not_of(" \n", open.offset - 1) + 1);
  return !(inner && inner->isLogicalOp()) && (before.ends_with("||") || before.ends_with("&&"));
}

std::size_t Conditions::end_of(const Stmt* statement) const {
  const std::string& text = places_.scope().text(places_.of_use(statement->getBeginLoc())->file);
  const std::size_t end = places_.behind(statement->getEndLoc());
  if (isa<CompoundStmt>(statement)) return end;
  const std::size_t semicolon = text.find_first_not_of(" \n", end);
  return semicolon < text.size() && text[semicolon] == ';' ? semicolon + 1 : end;
}

// True if a block without its braces would hide a name that the function uses elsewhere than in [begin, end).
bool Conditions::hides_names(const std::string& text, const CompoundStmt* block, std::size_t begin,
                             std::size_t end) const {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (const Stmt* statement : block->body()) {
    const auto* declarations = dyn_cast<DeclStmt>(statement);
    if (!declarations) continue;
    for (const Decl* decl : declarations->decls()) {
      const auto* named = dyn_cast<NamedDecl>(decl);
      const std::string name = named ? named->getNameAsString() : "";
      for (std::size_t at = text.find(name, body_begin_); at < body_end_; at = text.find(name, at + 1)) {
        const bool is_whole = !is_word(text[at - 1]) && !is_word(text[at + name.size()]);
        const bool is_member = text[at - 1] == '.' || text[at - 1] == '>';
        if (is_whole && !is_member && (at < begin || at >= end)) return true;
      }
    }
  }
  return false;
}

// The rest of a chain of `else if`, if it is known to be one block.
const CompoundStmt* Conditions::left_of(const Stmt* statement) const {
  const auto* next = dyn_cast_or_null<IfStmt>(statement);
  if (!next) return dyn_cast_or_null<CompoundStmt>(statement);
  const auto value = value_of(next->getCond());
  return value ? left_of(*value ? next->getThen() : next->getElse()) : nullptr;
}

std::vector<Edit> Conditions::prune(const IfStmt* statement, bool value) const {
  const auto* of_chain =
      isa_and_nonnull<IfStmt>(statement->getElse()) && !value ? left_of(statement->getElse()) : nullptr;
  const Place from = *places_.of(statement->getIfLoc());
  if (const auto written = written_.find(from); written != written_.end()) statement = written->second;
  const std::string& text = places_.scope().text(from.file);
  const Stmt* kept = value ? statement->getThen() : statement->getElse();
  const std::size_t end = end_of(statement->getElse() ? statement->getElse() : statement->getThen());
  if (!kept) {
    const std::size_t before = text.find_last_not_of(" \n", from.offset - 1);
    const std::size_t above = line_begin(text, line_begin(text, from.offset) - 1);
    const bool stands_alone = std::string_view("{};").find(text[before]) != std::string_view::npos ||
                              text.substr(above, 2) == "//" ||
                              comment_begin(text, from.offset) != line_begin(text, from.offset);
    if (!stands_alone) return {{from.offset, end, "{}"}};
    return {{comment_begin(text, from.offset), std::min(next_line(text, end), text.size()), ""}};
  }
  std::vector<Edit> edits;
  const std::size_t kept_begin = places_.of_use(kept->getBeginLoc())->offset, kept_end = end_of(kept);
  const auto can_lose_braces = [&](const CompoundStmt* block) {
    return block && !block->body_empty() && !hides_names(text, block, from.offset, end);
  };
  const auto lose_braces = [&](const CompoundStmt* block, std::size_t from_here) {
    const std::size_t open = places_.of_use(block->getLBracLoc())->offset, close = end_of(block);
    edits.push_back({from_here, text.find_first_not_of(" \n", open + 1), ""});
    edits.push_back({text.find_last_not_of(" \n", close - 2) + 1, close, ""});
  };
  // After an `else` that may stay, a block stays one.
  const std::string_view before(text.data(), text.find_last_not_of(" \n", from.offset - 1) + 1);
  const auto* block = dyn_cast<CompoundStmt>(kept);
  if (can_lose_braces(block) && !before.ends_with("else")) {
    lose_braces(block, from.offset);
  } else {
    edits.push_back({from.offset, kept_begin, ""});
  }
  if (can_lose_braces(of_chain) && !before.ends_with("else"))
    lose_braces(of_chain, places_.of_use(of_chain->getLBracLoc())->offset);
  if (end > kept_end) edits.push_back({kept_end, end, ""});
  return edits;
}

}  // namespace hydrac::specialize
