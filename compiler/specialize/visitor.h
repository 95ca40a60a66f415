// The one walk over Clang's syntax tree that all searches here share, because each instance of Clang's own
// RecursiveASTVisitor takes ten seconds to compile.
#pragma once
#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/TypeLoc.h>

namespace hydrac::specialize {

class Visitor {
 public:
  virtual ~Visitor() = default;

  // Each calls see() for the node and then for every node within, as instantiated and without implicit code.
  void walk(clang::Decl* declaration);
  void walk(clang::Stmt* statement);
  void walk(clang::TypeLoc type);
  void walk(clang::ASTContext& context);

 protected:
  virtual void see(clang::Decl*) {}
  virtual void see(clang::Stmt*) {}
  virtual void see(clang::TypeLoc) {}
  // True if the walk goes into a variable's declaration.
  virtual bool enters(clang::VarDecl*) { return true; }

 private:
  class Walk;
};

// Calls looker.on(node) for each of Nodes that the node is, in their order.
template <typename... Nodes, typename Looker, typename Node>
void look(Looker& looker, Node* node) {
  const auto call = [&]<typename Kind>(Kind* kind) {
    if (kind) looker.on(kind);
  };
  (call(llvm::dyn_cast<Nodes>(node)), ...);
}

template <typename... Locations, typename Looker>
void look(Looker& looker, clang::TypeLoc type) {
  const auto call = [&](auto location) {
    if (location) looker.on(location);
  };
  (call(type.getAs<Locations>()), ...);
}

}  // namespace hydrac::specialize
