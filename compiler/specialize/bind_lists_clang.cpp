#include "specialize/bind_lists.h"

#include <clang/AST/ASTLambda.h>

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

// A function that no longer is a template must say that it may stand in several files.
const char* inline_of(const FunctionDecl* function) {
  const bool says_so = function->isInlineSpecified() || function->isConstexpr() ||
                       function->isCXXClassMember() || function->getStorageClass() == SC_Static;
  return says_so ? "" : "inline ";
}

}  // namespace

void BoundLists::thin(const TemplateParameterList* parameters, const char* instead) {
  const auto place = places_.of(parameters->getTemplateLoc());
  if (!place || parameters->size() == 0) return;
  if (are_bound(parameters)) {
    const std::string& text = places_.scope().text(place->file);
    const std::size_t end = text.find_first_not_of(" \n", places_.behind(parameters->getRAngleLoc()));
    proposals_.propose(*place, 't', {{place->offset, end, instead}});
    return;
  }
  std::vector<SourceRange> ranges;
  for (const NamedDecl* parameter : *parameters) ranges.push_back(parameter->getSourceRange());
  drop_bound(parameters, parameters->getLAngleLoc(), parameters->getRAngleLoc(), ranges);
}

void BoundLists::thin_function(const FunctionDecl* function, const Decl* pattern) {
  if (auto* described = dyn_cast<FunctionTemplateDecl>(pattern); described && !isLambdaCallOperator(function))
    thin(described->getTemplateParameters(), inline_of(described->getTemplatedDecl()));
  if (function->getTemplateSpecializationKind() != TSK_ExplicitSpecialization) return;
  const auto* primary = written(function->getPrimaryTemplate());
  if (!are_bound(primary->getTemplateParameters())) return;
  const ASTTemplateArgumentListInfo* arguments = function->getTemplateSpecializationArgsAsWritten();
  if (arguments && arguments->getLAngleLoc().isValid()) {
    const auto place = places_.of(arguments->getLAngleLoc());
    proposals_.propose(*place, '<', {{place->offset, places_.behind(arguments->getRAngleLoc()), ""}});
  }
  if (function->getNumTemplateParameterLists() == 0) return;
  const TemplateParameterList* head = function->getTemplateParameterList(0);
  if (const auto place = places_.of(head->getTemplateLoc())) {
    const std::string& text = places_.scope().text(place->file);
    const std::size_t end = text.find_first_not_of(" \n", places_.behind(head->getRAngleLoc()));
    proposals_.propose(*place, 't', {{place->offset, end, inline_of(function)}});
  }
}

void BoundLists::drop_bound(const TemplateParameterList* parameters, SourceLocation left,
                            SourceLocation right, const std::vector<SourceRange>& items,
                            const char* instead) {
  const auto open = places_.of(left), close = places_.of(right);
  if (!open || !close) return;
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t parameter = std::min<std::size_t>(i, parameters->size() - 1);
    if (!text_.bound(parameters->getParam(static_cast<unsigned>(parameter)))) kept.push_back(i);
  }
  if (kept.size() == items.size()) return;
  std::vector<Edit> edits;
  if (kept.empty()) {
    edits.push_back({open->offset, close->offset + 1, instead});
  } else {
    std::size_t at = open->offset + 1;
    for (const std::size_t i : kept) {
      edits.push_back({at, begin_with_comment(open->file, at, places_.of(items[i].getBegin())->offset),
                       i == kept.front() ? "" : ", "});
      at = places_.behind(items[i].getEnd());
    }
    edits.push_back({at, close->offset, ""});
  }
  proposals_.propose(*open, '<', edits);
}

bool BoundLists::are_bound(const TemplateParameterList* parameters) const {
  return llvm::all_of(*parameters, [&](const NamedDecl* parameter) { return text_.bound(parameter); });
}

bool BoundLists::becomes_plain(const ValueDecl* decl) const {
  const auto* function = dyn_cast<FunctionDecl>(decl);
  const FunctionTemplateDecl* primary = function ? function->getPrimaryTemplate() : nullptr;
  return primary && are_bound(written(primary)->getTemplateParameters());
}

std::size_t BoundLists::begin_with_comment(int file, std::size_t from, std::size_t begin) const {
  const std::string& text = places_.scope().text(file);
  const std::size_t comment = text.rfind("/*", begin), end = text.rfind("*/", begin);
  const bool is_before = comment != std::string::npos && comment >= from && end + 2 == begin;
  return is_before ? comment : begin;
}

}  // namespace hydrac::specialize
