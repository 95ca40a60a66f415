#include "specialize/constants.h"
#include "specialize/unused.h"
#include "specialize/visitor.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

struct Range {
  std::size_t begin = 0, end = 0;
};

class ParameterFinder : public Visitor {
 public:
  ParameterFinder(const Places& places, const std::set<std::string>& roots, AllUnused& unused)
      : places_(places), text_(places.scope().text(0)), roots_(roots), unused_(unused) {}

  void run() {
    walk(places_.ast().context());
    for (const auto& [place, function] : functions_) consider(place, function);
  }

  void on(FunctionDecl* function) {
    const auto place = places_.of(function->getLocation());
    if (place && may_change(function)) functions_[*place] = function;
  }
  void on(CallExpr* call) {
    const FunctionDecl* callee = call->getDirectCallee();
    if (!callee) callee = only_candidate(dyn_cast<OverloadExpr>(call->getCallee()->IgnoreParens()));
    if (const auto place = callee ? written_place(callee) : std::nullopt) calls_[*place].push_back(call);
  }
  // Whoever calls a lambda may ask for its parameters: one that is not read only loses its name.
  void on(LambdaExpr* lambda) {
    const CXXMethodDecl* body = lambda->getCallOperator();
    for (unsigned i = 0; i < body->getNumParams(); ++i) {
      const ParmVarDecl* parameter = body->getParamDecl(i);
      const auto place = places_.of(parameter->getLocation());
      if (!place || parameter->getName().empty() || is_named(body, i)) continue;
      const std::size_t end = place->offset + parameter->getName().size();
      unused_[text_.find_last_not_of(' ', place->offset - 1) + 1] = {end, "", 0};
    }
  }
  void on(DeclRefExpr* expression) { count(expression->getDecl()); }
  void on(MemberExpr* expression) { count(expression->getMemberDecl()); }
  // Calls in templates that are resolved at instantiation; if only one function has that name, it is the one.
  void on(OverloadExpr* expression) {
    if (const FunctionDecl* function = only_candidate(expression)) {
      count(function);
    } else {
      unresolved_.insert(expression->getName().getAsString());
    }
  }
  void on(CXXDependentScopeMemberExpr* expression) {
    unresolved_.insert(expression->getMember().getAsString());
  }
  void on(DependentScopeDeclRefExpr* expression) {
    unresolved_.insert(expression->getDeclName().getAsString());
  }

 private:
  void see(Decl* declaration) override { look<FunctionDecl>(*this, declaration); }
  void see(Stmt* statement) override {
    look<CallExpr, DeclRefExpr, MemberExpr, OverloadExpr, CXXDependentScopeMemberExpr,
         DependentScopeDeclRefExpr, LambdaExpr>(*this, statement);
  }

  static const FunctionDecl* only_candidate(const OverloadExpr* expression) {
    if (!isa_and_nonnull<UnresolvedLookupExpr>(expression) || expression->getNumDecls() != 1) return nullptr;
    return (*expression->decls_begin())->getAsFunction();
  }

  std::optional<Place> written_place(const FunctionDecl* function) const {
    return places_.of(pattern_of(function)->getLocation());
  }
  void count(const ValueDecl* named) {
    const auto* function = dyn_cast<FunctionDecl>(named);
    if (const auto place = function ? written_place(function) : std::nullopt) ++uses_[*place];
  }

  // True if a change of its parameters only needs its calls to change.
  bool may_change(const FunctionDecl* function) const {
    if (!function->doesThisDeclarationHaveABody() || function->isVariadic() || function->isExternC() ||
        function->isOverloadedOperator() ||
        isa<CXXConstructorDecl, CXXDestructorDecl, CXXConversionDecl>(function))
      return false;
    const auto* method = dyn_cast<CXXMethodDecl>(function);
    if (method && (method->isVirtual() || method->getParent()->isLambda())) return false;
    if (!function->getDeclContext()->lookup(function->getDeclName()).isSingleResult()) return false;
    const auto redeclarations = function->redecls();
    return std::distance(redeclarations.begin(), redeclarations.end()) == 1 &&
           llvm::none_of(function->parameters(), [](const ParmVarDecl* p) { return p->hasDefaultArg(); });
  }

  void consider(const Place& place, const FunctionDecl* function) {
    const std::vector<const CallExpr*>& calls = calls_[place];
    // A template may have the name of a kernel, which is called from elsewhere.
    if (calls.empty() && roots_.contains(function->getNameAsString())) return;
    if (static_cast<std::size_t>(uses_[place]) != calls.size() ||
        unresolved_.contains(function->getNameAsString()))
      return;
    std::vector<bool> goes;
    for (unsigned i = 0; i < function->getNumParams(); ++i) {
      goes.push_back(!is_named(function, i) && llvm::all_of(calls, [&](const CallExpr* call) {
        return i < call->getNumArgs() && is_pure(call->getArg(i));
      }));
    }
    if (llvm::none_of(goes, [](bool b) { return b; })) return;
    std::vector<std::optional<Range>> declared;
    for (const ParmVarDecl* parameter : function->parameters())
      declared.push_back(range_of(parameter->getSourceRange()));
    std::vector<std::vector<std::optional<Range>>> given;
    for (const CallExpr* call : calls) {
      given.emplace_back();
      for (const Expr* argument : call->arguments())
        given.back().push_back(range_of(argument->getSourceRange()));
    }
    const auto is_known = [](const auto& list) {
      return llvm::all_of(list, [](const auto& range) { return range.has_value(); });
    };
    if (!is_known(declared) || !llvm::all_of(given, is_known)) return;
    const std::vector<std::size_t> of_declaration = thin(declared, goes, {});
    for (const auto& list : given) thin(list, goes, of_declaration);
  }

  // Searches the text, because code that the parser does not see, such as pragmas and code for other
  // processors, counts too.
  bool is_named(const FunctionDecl* function, unsigned i) const {
    const ParmVarDecl* parameter = function->getParamDecl(i);
    if (parameter->getType()->isDependentType()) return true;  // something may be deduced from it
    if (parameter->getName().empty()) return false;
    const auto begin = places_.of_use(function->getBody()->getBeginLoc());
    const std::size_t end = places_.behind(function->getBody()->getEndLoc());
    return !begin ||
           words_of(text_.substr(begin->offset, end - begin->offset)).contains(parameter->getName().str());
  }

  std::optional<Range> range_of(SourceRange range) const {
    const auto begin = places_.of(range.getBegin());
    if (!begin || !places_.of(range.getEnd())) return std::nullopt;
    return Range{begin->offset, places_.behind(range.getEnd())};
  }

  // Removes elements from a list, each with the matching element of the declaration. Returns where the
  // removed stretches begin.
  std::vector<std::size_t> thin(const std::vector<std::optional<Range>>& list, const std::vector<bool>& goes,
                                const std::vector<std::size_t>& of_declaration) {
    std::vector<std::size_t> begins;
    const auto note = [&](std::size_t begin, std::size_t end, const char* instead) {
      unused_[begin] = {end, instead, of_declaration.empty() ? 0 : of_declaration.at(begins.size())};
      begins.push_back(begin);
    };
    std::size_t kept_end = 0;  // of the one before
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!goes[i]) {
        kept_end = list[i]->end;
        continue;
      }
      std::size_t next = i;
      while (next < list.size() && goes[next]) ++next;
      if (next == list.size()) {
        note(kept_end == 0 ? list[i]->begin : kept_end, list.back()->end, "");
      } else if (kept_end == 0) {
        note(list[i]->begin, list[next]->begin, "");
      } else {
        note(kept_end, list[next]->begin, ", ");
      }
      i = next - 1;
    }
    return begins;
  }

  const Places& places_;
  const std::string& text_;
  const std::set<std::string>& roots_;
  AllUnused& unused_;
  std::map<Place, const FunctionDecl*> functions_;
  std::map<Place, std::vector<const CallExpr*>> calls_;
  std::map<Place, int> uses_;
  std::set<std::string> unresolved_;
};

}  // namespace

void find_unused_parameters(const Places& places, const std::set<std::string>& roots, AllUnused& unused) {
  ParameterFinder(places, roots, unused).run();
}

}  // namespace hydrac::specialize
