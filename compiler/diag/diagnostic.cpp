#include "diag/diagnostic.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "diag/render.h"

namespace hydrac::diag {

void Diagnostics::report(Kind kind, Location where, std::string message, std::string suggestion) {
  if (severity(kind) == Severity::error) ++errors_;
  all_.push_back({kind, std::move(where), std::move(message), std::move(suggestion)});
}

void Diagnostics::add_source(const std::string& file, std::string text) {
  std::vector<size_t> line_starts = {0};
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 1))
    line_starts.push_back(end + 1);
  const auto known = sources_.find(file);
  const size_t order = known == sources_.end() ? sources_.size() : known->second.order;
  sources_.insert_or_assign(file, Source{order, std::move(text), std::move(line_starts)});
}

std::string_view Diagnostics::source_line(const Location& where) const {
  const auto source = sources_.find(where.file);
  if (source == sources_.end() || !where.known()) return {};
  const auto& [order, text, line_starts] = source->second;
  const auto line = static_cast<size_t>(where.line);
  if (line > line_starts.size()) return {};
  std::string_view rest = std::string_view(text).substr(line_starts[line - 1]);
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

std::string Diagnostics::render() const {
  const auto file_index = [this](const Location& where) {
    const auto source = sources_.find(where.file);
    return source == sources_.end() ? sources_.size() : source->second.order;
  };
  std::vector<const Diagnostic*> sorted;
  for (const Diagnostic& diagnostic : all_) sorted.push_back(&diagnostic);
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Diagnostic* a, const Diagnostic* b) {
    const auto a_file = file_index(a->where), b_file = file_index(b->where);
    return std::tie(a_file, a->where.line, a->where.col) < std::tie(b_file, b->where.line, b->where.col);
  });
  std::string text;
  for (const Diagnostic* diagnostic : sorted)
    text += diag::render(*diagnostic, source_line(diagnostic->where));
  return text;
}

}  // namespace hydrac::diag
