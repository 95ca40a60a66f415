#include "runtime/series/csv.h"

#include <fmt/core.h>

#include <utility>

#include "runtime/error.h"

namespace hydrac::runtime {

CsvReader::CsvReader(std::string_view text, std::string shown_as)
    : rest_(text), shown_as_(std::move(shown_as)) {
  if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
}

bool CsvReader::next(std::vector<std::string>& fields) {
  if (rest_.empty()) return false;
  record_line_ = next_line_;
  size_t count = 0;
  for (;;) {
    if (count == fields.size()) fields.emplace_back();
    read_field(fields[count++]);
    if (rest_.empty() || rest_.front() != ',') break;
    rest_.remove_prefix(1);
  }
  fields.resize(count);
  if (rest_.starts_with('\r')) rest_.remove_prefix(1);
  if (!rest_.empty()) rest_.remove_prefix(1);  // the LF, which read_field() stopped at
  ++next_line_;
  return true;
}

// Leaves `rest_` at the comma, CRLF, LF or end behind the field.
void CsvReader::read_field(std::string& field) {
  field.clear();
  if (rest_.starts_with('"')) return read_quoted(field);
  size_t end = rest_.find_first_of(",\n\"");
  if (end == std::string_view::npos) end = rest_.size();
  if (end < rest_.size() && rest_[end] == '"') {
    throw InputError(
        fmt::format("{}:{}: a quote within a field that does not begin with one", shown_as_, next_line_));
  }
  const bool at_line_end = end == rest_.size() || rest_[end] == '\n';
  if (at_line_end && end > 0 && rest_[end - 1] == '\r') --end;
  field = rest_.substr(0, end);
  rest_.remove_prefix(end);
}

void CsvReader::read_quoted(std::string& field) {
  rest_.remove_prefix(1);
  for (;;) {
    const size_t quote = rest_.find('"');
    if (quote == std::string_view::npos) {
      throw InputError(fmt::format("{}:{}: a quoted field without end", shown_as_, record_line_));
    }
    for (const char c : rest_.substr(0, quote)) next_line_ += c == '\n';
    field += rest_.substr(0, quote);
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) break;
    field += '"';
    rest_.remove_prefix(1);
  }
  if (!rest_.empty() && rest_.front() != ',' && !rest_.starts_with('\n') && !rest_.starts_with("\r\n")) {
    throw InputError(fmt::format("{}:{}: text behind a quoted field", shown_as_, next_line_));
  }
}

}  // namespace hydrac::runtime
