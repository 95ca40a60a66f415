#include <clang/Lex/Lexer.h>

#include "specialize/declarators.h"
#include "specialize/edits.h"
#include "specialize/unused.h"
#include "specialize/visitor.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

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

namespace {

class UnusedFinder : public Visitor {
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
    const DeclaredTogether together = declared_together(places_, context);
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
        walk(decl);
        continue;
      }
      if (is_used(decl)) {
        all = false;
        if (const auto* record = record_of(decl)) find_members(record);
        walk(decl);
      } else {
        drop_declaration(decl, together);
      }
    }
    return all;
  }

  // Calls of functions that do nothing, such as what one matmul policy needs and another does not.
  void on(CompoundStmt* block) {
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
  }
  void on(DeclStmt* statement) {
    for (const Decl* decl : statement->decls()) {
      const auto place = places_.of(decl->getLocation());
      if (place && isa<VarDecl>(decl) && may_go(decl) && !is_used(decl)) unused_locals_.insert(*place);
    }
    if (llvm::all_of(statement->decls(), [&](const Decl* d) { return may_go(d) && !is_used(d); })) {
      drop(statement->getBeginLoc(), statement->getEndLoc());
    } else if (!statement->isSingleDecl() && places_.of(statement->getBeginLoc())) {
      std::vector<const VarDecl*> variables;
      for (const Decl* decl : statement->decls()) {
        const auto* variable = dyn_cast<VarDecl>(decl);
        if (!variable || !places_.of(variable->getLocation())) return;
        variables.push_back(variable);
      }
      thin(variables, [&](const VarDecl* variable) { return may_go(variable) && !is_used(variable); });
    }
  }

 private:
  void see(Stmt* statement) override { look<CompoundStmt, DeclStmt>(*this, statement); }

  bool is_used(const Decl* decl) const {
    const auto place = places_.of_use(decl->getLocation());
    if (!place || used_.patterns.contains(*place)) return true;
    const CXXRecordDecl* definition = definition_behind(decl);
    return definition && is_used(definition) && is_needed_before(record_of(decl), definition);
  }

  // True if code between a class's declaration and its next one names it, or if only the first declaration
  // states its template arguments.
  bool is_needed_before(const CXXRecordDecl* declared, const CXXRecordDecl* definition) const {
    if (const ClassTemplateDecl* described = declared->getDescribedClassTemplate();
        described && llvm::any_of(*described->getTemplateParameters(), has_default_of_its_own))
      return true;
    const SourceManager& sources = places_.ast().sources();
    SourceLocation end = definition->getLocation();
    for (const auto* other : definition->redecls()) {
      const SourceLocation place = other->getLocation();
      if (declared->getLocation() < place && place < end) end = place;
    }
    for (SourceLocation at = declared->getLocation(); at < end;) {
      const std::optional<Token> token = Lexer::findNextToken(at, sources, places_.ast().language());
      at = token->getLocation();
      if (at < end && token->is(tok::raw_identifier) && token->getRawIdentifier() == declared->getName())
        return true;
    }
    return false;
  }
  static bool has_default_of_its_own(const NamedDecl* parameter) {
    const auto has = [](const auto* p) {
      return p && p->hasDefaultArgument() && !p->defaultArgumentWasInherited();
    };
    return has(dyn_cast<TemplateTypeParmDecl>(parameter)) ||
           has(dyn_cast<NonTypeTemplateParmDecl>(parameter));
  }

  bool is_used_linkage(const LinkageSpecDecl* linkage) const {
    return llvm::any_of(linkage->decls(), [&](const Decl* d) { return is_used(d); });
  }

  // An #if may hold what another processor does.
  bool is_empty_text(const CompoundStmt* body) const {
    const auto open = places_.of(body->getLBracLoc()), close = places_.of(body->getRBracLoc());
    return open && close && text_.find_first_not_of(" \n", open->offset + 1) == close->offset;
  }

  // Local declarations only.
  static bool may_go(const Decl* decl) {
    if (isa<TypedefNameDecl>(decl)) return true;
    const auto* variable = dyn_cast<VarDecl>(decl);
    if (!variable || !variable->isLocalVarDecl() || variable->hasGlobalStorage()) return false;
    const Type* element = variable->getType()->getBaseElementTypeUnsafe();
    if (!variable->hasInit()) return element->isScalarType();
    return variable->isConstexpr() || (variable->getType().isConstQualified() &&
                                       variable->getType()->isScalarType() && is_pure(variable->getInit()));
  }

  void find_members(const CXXRecordDecl* record) {
    const DeclaredTogether together = declared_together(places_, record);
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
        drop_declaration(member, together);
      }
    }
    if (access) drop(access->getBeginLoc(), access->getEndLoc());
  }

  void drop_declaration(const Decl* decl, const DeclaredTogether& together) {
    SourceLocation begin = decl->getBeginLoc();
    if (isa<VarDecl>(decl)) {
      const std::vector<const VarDecl*>& variables = together.at(places_.of_use(begin)->offset);
      if (llvm::any_of(variables, [&](const VarDecl* variable) { return is_used(variable); })) {
        thin(variables, [&](const VarDecl* variable) { return !is_used(variable); });
        return;
      }
    }
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

  // The remaining variables of `constexpr int a = 1, b = 2;`.
  template <typename Goes>
  void thin(const std::vector<const VarDecl*>& variables, const Goes& goes) {
    const std::vector<Declarator> declarators = declarators_of(places_, variables);
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (!goes(variables[i])) continue;
      const auto& [begin, end, comma] = declarators[i];
      unused_[begin] = {.end = end, .comma = comma, .is_last = i + 1 == variables.size()};
    }
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

}  // namespace

AllUnused unused_of(const Places& places, const std::set<std::string>& roots,
                    std::set<std::string>& outside) {
  const auto is_root = [&](const Decl* decl) {
    const auto* named = dyn_cast<NamedDecl>(decl);
    return named && places.contains(decl) && roots.contains(named->getNameAsString());
  };
  // A declaration that only an unused variable names is unused too.
  for (std::set<Place> unused_locals;;) {
    Bindings bindings;
    const Instances used = instances_of(places, is_root, bindings, 0, unused_locals);
    AllUnused unused;
    const std::size_t known = unused_locals.size();
    UnusedFinder(places, used, unused, unused_locals).find(places.ast().context().getTranslationUnitDecl());
    if (unused_locals.size() > known) continue;
    find_unused_parameters(places, roots, unused);
    outside.insert(used.outside.begin(), used.outside.end());
    return unused;
  }
}

}  // namespace hydrac::specialize
