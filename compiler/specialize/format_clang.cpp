#include "specialize/format.h"

#include <clang/Format/Format.h>
#include <clang/Tooling/Core/Replacement.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace hydrac::specialize {

namespace {

clang::format::FormatStyle emitted_style() {
  namespace format = clang::format;
  format::FormatStyle style = format::getGoogleStyle(format::FormatStyle::LK_Cpp);
  style.ColumnLimit = 110;
  style.DerivePointerAlignment = false;
  style.PointerAlignment = format::FormatStyle::PAS_Left;
  style.AllowShortFunctionsOnASingleLine = format::FormatStyle::SFS_Inline;
  style.MaxEmptyLinesToKeep = 1;
  style.KeepEmptyLines.AtStartOfBlock = false;
  style.KeepEmptyLines.AtStartOfFile = false;
  style.BreakStringLiterals = false;
  style.SortIncludes = format::FormatStyle::SI_Never;
  style.RemoveSemicolon = true;
  return style;
}

std::string formatted_once(const std::string& code) {
  const auto changes = clang::format::reformat(
      emitted_style(), code, {clang::tooling::Range(0, static_cast<unsigned>(code.size()))});
  llvm::Expected<std::string> result = clang::tooling::applyAllReplacements(code, changes);
  if (!result) throw std::logic_error("formatting failed: " + llvm::toString(result.takeError()));
  return *result;
}

// The comments of a text, line by line.
std::vector<std::string> comments_of(const std::string& text) {
  std::vector<std::string> comments;
  for (std::size_t at = 0; (at = text.find("//", at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    comments.push_back(text.substr(at, end - at));
    at = end;
  }
  return comments;
}

}  // namespace

std::string formatted(const std::string& code) {
  // A comment that was joined or split may find a better place in the next round.
  constexpr int kRounds = 5;
  std::string text = formatted_once(code);
  if (comments_of(text) == comments_of(code)) return text;
  for (int round = 1; round < kRounds; ++round) {
    std::string again = formatted_once(text);
    if (again == text) return text;
    text = std::move(again);
  }
  throw std::logic_error("formatting does not settle");
}

}  // namespace hydrac::specialize
