#include "specialize/tidy.h"

#include <clang/AST/RecursiveASTVisitor.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "specialize/edits.h"
#include "specialize/instances.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

// What can go of a text, by where it begins.
struct Unused {
  std::size_t end = 0;
  std::string replacement;
  bool operator==(const Unused&) const = default;
};
using AllUnused = std::map<std::size_t, Unused>;

// Whether to leave out the evaluation changes nothing but the value.
bool is_pure(const Stmt* statement) {
  if (!statement) return true;
  if (isa<CXXNewExpr, CXXThrowExpr, LambdaExpr, AsmStmt, CompoundAssignOperator>(statement)) return false;
  if (const auto* operation = dyn_cast<UnaryOperator>(statement);
      operation && operation->isIncrementDecrementOp())
    return false;
  if (const auto* operation = dyn_cast<BinaryOperator>(statement); operation && operation->isAssignmentOp())
    return false;
  if (const auto* call = dyn_cast<CallExpr>(statement)) {
    const FunctionDecl* callee = call->getDirectCallee();
    if (callee) callee = callee->getDefinition();
    const auto* body = callee ? dyn_cast_or_null<CompoundStmt>(callee->getBody()) : nullptr;
    if (!body || body->size() != 1 || !isa<ReturnStmt>(body->body_front()) || !is_pure(body->body_front()))
      return false;
  }
  return llvm::all_of(statement->children(), [](const Stmt* child) { return is_pure(child); });
}

class UnusedFinder : public RecursiveASTVisitor<UnusedFinder> {
 public:
  UnusedFinder(const Places& places, const Instances& used, AllUnused& unused, std::set<Place>& unused_locals)
      : places_(places),
        text_(places.scope().text(0)),
        used_(used),
        unused_(unused),
        unused_locals_(unused_locals) {}

  // Returns whether all of the context's declarations in the text go.
  bool find(const DeclContext* context) {
    bool all = true;
    for (Decl* decl : context->decls()) {
      const auto place = places_.of_use(decl->getLocation());
      if (!place || decl->isImplicit()) continue;
      if (const auto* space = dyn_cast<NamespaceDecl>(decl)) {
        if (find(space)) {
          drop(space->getBeginLoc(), space->getRBraceLoc());
        } else {
          all = false;
        }
        continue;
      }
      if (isa<LinkageSpecDecl>(decl)) {
        if (is_used_linkage(cast<LinkageSpecDecl>(decl))) all = false;
        TraverseDecl(decl);
        continue;
      }
      if (is_used(decl)) {
        all = false;
        if (const auto* record = record_of(decl)) find_members(record);
        TraverseDecl(decl);
      } else {
        drop_declaration(decl);
      }
    }
    return all;
  }

  // Calls of functions that do nothing, such as what one product policy needs and another does not.
  bool VisitCompoundStmt(CompoundStmt* block) {
    for (const Stmt* statement : block->body()) {
      const auto* call = dyn_cast<CallExpr>(statement);
      const FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
      if (callee) callee = callee->getDefinition();
      const auto* body = callee ? dyn_cast_or_null<CompoundStmt>(callee->getBody()) : nullptr;
      if (!body || !body->body_empty() || !places_.contains(callee) || !is_empty_text(body) ||
          !llvm::all_of(call->arguments(), [](const Expr* argument) { return is_pure(argument); }))
        continue;
      const auto begin = places_.of(call->getBeginLoc());
      if (!begin || text_.find_first_not_of(' ', line_begin(text_, begin->offset)) != begin->offset) continue;
      const std::size_t end = next_line(text_, statement_end(text_, places_.behind(call->getEndLoc())));
      note(line_begin(text_, begin->offset), end, "");
    }
    return true;
  }
  bool VisitDeclStmt(DeclStmt* statement) {
    for (const Decl* decl : statement->decls()) {
      const auto place = places_.of(decl->getLocation());
      if (place && isa<VarDecl>(decl) && may_go(decl) && !is_used(decl)) unused_locals_.insert(*place);
    }
    if (!llvm::all_of(statement->decls(), [&](const Decl* d) { return may_go(d); })) {
      thin(statement);
      return true;
    }
    if (llvm::none_of(statement->decls(), [&](const Decl* d) { return is_used(d); }))
      drop(statement->getBeginLoc(), statement->getEndLoc());
    else
      thin(statement);
    return true;
  }

 private:
  bool is_used(const Decl* decl) const {
    const auto place = places_.of_use(decl->getLocation());
    return !place || used_.patterns.contains(*place);
  }
  bool is_used_linkage(const LinkageSpecDecl* linkage) const {
    return llvm::any_of(linkage->decls(), [&](const Decl* d) { return is_used(d); });
  }

  // An #if may hold what another processor does.
  bool is_empty_text(const CompoundStmt* body) const {
    const auto open = places_.of(body->getLBracLoc()), close = places_.of(body->getRBracLoc());
    return open && close && text_.find_first_not_of(" \n", open->offset + 1) == close->offset;
  }

  // Of local declarations.
  static bool may_go(const Decl* decl) {
    if (isa<TypedefNameDecl>(decl)) return true;
    const auto* variable = dyn_cast<VarDecl>(decl);
    if (!variable || !variable->isLocalVarDecl() || variable->hasGlobalStorage()) return false;
    return variable->isConstexpr() || (variable->getType().isConstQualified() &&
                                       variable->getType()->isScalarType() && is_pure(variable->getInit()));
  }

  static const CXXRecordDecl* record_of(const Decl* decl) {
    if (const auto* described = dyn_cast<ClassTemplateDecl>(decl)) return described->getTemplatedDecl();
    return dyn_cast<CXXRecordDecl>(decl);
  }

  void find_members(const CXXRecordDecl* record) {
    const AccessSpecDecl* access = nullptr;  // that nothing stands behind yet
    for (const Decl* member : record->decls()) {
      if (member->isImplicit()) continue;
      if (const auto* next = dyn_cast<AccessSpecDecl>(member)) {
        if (access) drop(access->getBeginLoc(), access->getEndLoc());
        access = next;
      } else if (isa<FieldDecl, StaticAssertDecl>(member) || is_used(member)) {
        access = nullptr;
        if (const auto* inner = record_of(member)) find_members(inner);
      } else {
        drop_declaration(member);
      }
    }
    if (access) drop(access->getBeginLoc(), access->getEndLoc());
  }

  void drop_declaration(const Decl* decl) {
    SourceLocation begin = decl->getBeginLoc();
    const Decl* plain = decl;
    if (const auto* described = dyn_cast<TemplateDecl>(decl)) plain = described->getTemplatedDecl();
    for (const Attr* attribute : plain->attrs()) {
      const auto place = places_.of_use(attribute->getLocation()), first = places_.of_use(begin);
      if (place && first && place->offset < first->offset) begin = attribute->getLocation();
    }
    const auto place = places_.of_use(begin);
    if (place)
      note(comment_begin(text_, place->offset), next_line(text_, places_.behind_declaration(decl)), "");
  }

  void drop(SourceLocation first, SourceLocation last) {
    const auto begin = places_.of_use(first);
    if (!begin) return;
    const std::size_t end = next_line(text_, statement_end(text_, places_.behind(last)));
    note(comment_begin(text_, begin->offset), end, "");
  }

  // Of `constexpr int a = 1, b = 2;` what is used.
  void thin(const DeclStmt* statement) {
    if (statement->isSingleDecl()) return;
    const auto begin = places_.of(statement->getBeginLoc());
    std::string kept;
    bool changes = false;
    for (const Decl* decl : statement->decls()) {
      const auto* variable = dyn_cast<VarDecl>(decl);
      const auto name = places_.of(decl->getLocation());
      if (!variable || !name || !begin) return;
      if (!is_used(decl) && may_go(decl)) {
        changes = true;
        continue;
      }
      const std::size_t end = places_.behind(decl->getEndLoc());
      if (kept.empty()) {
        const auto first = places_.of((*statement->decl_begin())->getLocation());
        kept = text_.substr(begin->offset, first->offset - begin->offset);
      } else {
        kept += ", ";
      }
      kept += text_.substr(name->offset, end - name->offset);
    }
    if (changes) note(begin->offset, places_.behind(statement->getEndLoc()), kept + ";");
  }

  void note(std::size_t begin, std::size_t end, const std::string& replacement) {
    unused_[begin] = {end, replacement};
  }

  const Places& places_;
  const std::string& text_;
  const Instances& used_;
  AllUnused& unused_;
  std::set<Place>& unused_locals_;
};

// Heads that nothing follows but another head or the end of a namespace or of a part.
std::string without_empty_heads(const std::string& text, bool keeps_marks) {
  std::string result;
  std::size_t at = 0;
  const std::string mark = kHeadMark, part = kPartMark;
  const auto is_mark = [&](std::size_t place) {
    return text.compare(place, mark.size(), mark) == 0 || text.compare(place, part.size(), part) == 0;
  };
  for (std::size_t begin; (begin = text.find(mark, at)) != std::string::npos;) {
    result.append(text, at, begin - at);
    std::size_t end = begin + mark.size();
    const std::size_t comment = end;
    while (text.compare(end, 2, "//") == 0 && !is_mark(end)) end = next_line(text, end);
    const std::size_t next = text.find_first_not_of(" \n", end);
    const bool is_empty = next == std::string::npos || text[next] == '}' || is_mark(next);
    if (!is_empty) result.append(text, keeps_marks ? begin : comment, end - (keeps_marks ? begin : comment));
    at = end;
  }
  return result.append(text, at);
}

std::string without_unused_includes(const std::string& text, const std::set<std::string>& used) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = next_line(text, at);
    const std::string line = text.substr(at, end - at);
    const std::string start = "#include \"";
    const bool goes =
        line.starts_with(start) && !used.contains(line.substr(start.size(), line.rfind('"') - start.size()));
    if (!goes) result += line;
    at = end;
  }
  return result;
}

// Files out of scope that something used comes from are added to `outside`.
AllUnused unused_of(const Places& places, const std::set<std::string>& roots,
                    std::set<std::string>& outside) {
  const auto is_root = [&](const Decl* decl) {
    const auto* named = dyn_cast<NamedDecl>(decl);
    return named && places.contains(decl) && roots.contains(named->getNameAsString());
  };
  // What only an unused variable names is unused too.
  for (std::set<Place> unused_locals;;) {
    Bindings bindings;
    const Instances used = instances_of(places, is_root, bindings, 0, unused_locals);
    AllUnused unused;
    const std::size_t known = unused_locals.size();
    UnusedFinder(places, used, unused, unused_locals).find(places.ast().context().getTranslationUnitDecl());
    if (unused_locals.size() > known) continue;
    outside.insert(used.outside.begin(), used.outside.end());
    return unused;
  }
}

// Whether it goes, or all of something that it is part of.
bool goes(const AllUnused& unused, std::size_t begin, const Unused& what) {
  for (const auto& [other_begin, other] : unused) {
    if (other_begin > begin) return false;
    if (other_begin == begin && other == what) return true;
    if (other.end >= what.end && other.replacement.empty()) return true;
  }
  return false;
}

AllUnused common(const AllUnused& a, const AllUnused& b) {
  AllUnused both;
  for (const auto& [begin, what] : a) {
    if (goes(b, begin, what)) both[begin] = what;
  }
  for (const auto& [begin, what] : b) {
    if (goes(a, begin, what)) both.try_emplace(begin, what);
  }
  return both;
}

// What is unused for each processor.
AllUnused unused_for_all(ParseRequest& request, const std::vector<std::string>& processors,
                         const std::set<std::string>& roots, std::set<std::string>& outside,
                         std::vector<Problem>& problems) {
  const Scope scope({request.source});
  AllUnused unused;
  for (const std::string& processor : processors) {
    request.processor = processor;
    const std::unique_ptr<Ast> ast = Ast::parse(request);
    problems.insert(problems.end(), ast->problems().begin(), ast->problems().end());
    const AllUnused of_processor = unused_of(Places(*ast, scope), roots, outside);
    unused = processor == processors.front() ? of_processor : common(unused, of_processor);
  }
  return unused;
}

// `text` stands at `place` of what was looked at.
std::string without(const AllUnused& unused, const std::string& text, std::size_t place) {
  std::vector<Edit> edits;
  for (const auto& [begin, what] : unused) edits.push_back({begin - place, what.end - place, what.replacement});
  return edited(text, 0, text.size(), edits);
}

std::string refusal(const std::vector<Problem>& problems, const std::string& text) {
  std::string message = "specialized code does not parse:";
  for (const Problem& problem : problems) message += "\n  " + text_of(problem);
  return message + "\n" + text;
}

}  // namespace

Texts tidied(Texts texts, ParseRequest request, const std::vector<std::string>& processors) {
  constexpr int kRounds = 12;
  std::vector<Problem> first_problems;
  std::string first_text;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Problem> problems;
    std::set<std::string> outside;
    AllUnused of_shared;
    std::vector<AllUnused> of_own(texts.own.size());
    bool is_settled = true;
    for (std::size_t i = 0; i < texts.own.size(); ++i) {
      request.source.text = texts.shared + texts.own[i].text;
      AllUnused unused = unused_for_all(request, processors, texts.own[i].roots, outside, problems);
      const auto behind = unused.lower_bound(texts.shared.size());
      of_own[i] = AllUnused(behind, unused.end());
      unused.erase(behind, unused.end());
      of_shared = i == 0 ? unused : common(of_shared, unused);
      is_settled = is_settled && of_own[i].empty();
    }
    is_settled = is_settled && of_shared.empty();
    if (round == 0 || first_problems.empty()) {
      // What nothing uses may be wrong: it goes.
      first_problems = problems;
      first_text = request.source.text;
    }
    if (is_settled && !problems.empty()) throw std::logic_error(refusal(first_problems, first_text));
    for (std::size_t i = 0; i < texts.own.size(); ++i) {
      texts.own[i].text =
          without_empty_heads(without(of_own[i], texts.own[i].text, texts.shared.size()), !is_settled);
    }
    texts.shared = without_empty_heads(without(of_shared, texts.shared, 0), !is_settled);
    if (is_settled) {
      texts.shared = without_unused_includes(texts.shared, outside);
      return texts;
    }
  }
  throw std::logic_error("tidying does not settle");
}

}  // namespace hydrac::specialize
