#include <clang/Lex/Lexer.h>

#include <algorithm>

#include "specialize/declarators.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

// Start of `*a = x` or `(&a)[3]`, behind the type that all share.
std::size_t first_begin(const Places& places, const VarDecl* variable) {
  std::size_t begin = places.of_use(variable->getLocation())->offset;
  const auto include = [&](SourceLocation sigil) {
    if (const auto place = places.of(sigil)) begin = std::min(begin, place->offset);
  };
  for (TypeLoc type = variable->getTypeSourceInfo()->getTypeLoc(); type; type = type.getNextTypeLoc()) {
    if (const auto pointer = type.getAs<PointerTypeLoc>()) include(pointer.getStarLoc());
    if (const auto reference = type.getAs<LValueReferenceTypeLoc>()) include(reference.getAmpLoc());
    if (const auto reference = type.getAs<RValueReferenceTypeLoc>()) include(reference.getAmpAmpLoc());
    if (const auto parentheses = type.getAs<ParenTypeLoc>()) include(parentheses.getLParenLoc());
  }
  return begin;
}

// The last comma between two names, and what follows it.
std::pair<std::size_t, std::size_t> separator(const Places& places, const VarDecl* before,
                                              const VarDecl* variable) {
  const SourceManager& sources = places.ast().sources();
  const SourceLocation name = sources.getExpansionLoc(variable->getLocation());
  std::pair<std::size_t, std::size_t> found;
  bool is_behind_comma = false;
  for (SourceLocation at = sources.getExpansionLoc(before->getLocation()); at != name;) {
    const std::optional<Token> token = Lexer::findNextToken(at, sources, places.ast().language());
    at = token->getLocation();
    if (is_behind_comma) found.second = sources.getFileOffset(at);
    is_behind_comma = token->is(tok::comma);
    if (is_behind_comma) found.first = sources.getFileOffset(at);
  }
  return found;
}

}  // namespace

DeclaredTogether declared_together(const Places& places, const DeclContext* context) {
  DeclaredTogether all;
  for (const Decl* decl : context->decls()) {
    const auto* variable = dyn_cast<VarDecl>(decl);
    const auto begin = variable ? places.of_use(variable->getBeginLoc()) : std::nullopt;
    if (begin && places.contains(variable)) all[begin->offset].push_back(variable);
  }
  return all;
}

std::vector<Declarator> declarators_of(const Places& places, const std::vector<const VarDecl*>& variables) {
  std::vector<Declarator> all = {{first_begin(places, variables[0]), 0, 0}};
  for (std::size_t i = 1; i < variables.size(); ++i) {
    const auto [comma, begin] = separator(places, variables[i - 1], variables[i]);
    all.back().end = begin;
    all.push_back({begin, 0, comma});
  }
  all.back().end = places.behind_declaration(variables.back());
  return all;
}

}  // namespace hydrac::specialize
