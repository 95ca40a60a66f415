#include "specialize/visitor.h"

#include <clang/AST/RecursiveASTVisitor.h>

namespace hydrac::specialize {

class Visitor::Walk : public clang::RecursiveASTVisitor<Visitor::Walk> {
 public:
  explicit Walk(Visitor& visitor) : visitor_(visitor) {}

  bool TraverseVarDecl(clang::VarDecl* variable) {
    return !visitor_.enters(variable) || RecursiveASTVisitor::TraverseVarDecl(variable);
  }
  bool VisitDecl(clang::Decl* declaration) {
    visitor_.see(declaration);
    return true;
  }
  bool VisitStmt(clang::Stmt* statement) {
    visitor_.see(statement);
    return true;
  }
  bool VisitTypeLoc(clang::TypeLoc type) {
    visitor_.see(type);
    return true;
  }

 private:
  Visitor& visitor_;
};

void Visitor::walk(clang::Decl* declaration) {
  Walk(*this).TraverseDecl(declaration);
}
void Visitor::walk(clang::Stmt* statement) {
  Walk(*this).TraverseStmt(statement);
}
void Visitor::walk(clang::TypeLoc type) {
  Walk(*this).TraverseTypeLoc(type);
}
void Visitor::walk(clang::ASTContext& context) {
  Walk(*this).TraverseAST(context);
}

}  // namespace hydrac::specialize
