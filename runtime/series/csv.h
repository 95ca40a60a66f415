// Comma-separated values as RFC 4180 has them: quoted fields, doubled quotes, line breaks inside quotes, CRLF
// or LF.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::runtime {

class CsvReader {
 public:
  // `text` must outlive the reader. A byte-order mark at its beginning is skipped. `shown_as` names it in
  // messages.
  CsvReader(std::string_view text, std::string shown_as);

  // Reads the next record into `fields`; false at the end. Throws InputError naming file and line for a stray
  // quote.
  bool next(std::vector<std::string>& fields);
  // The line on which the record read last began, from 1.
  int64_t line() const { return record_line_; }

 private:
  void read_field(std::string& field);
  void read_quoted(std::string& field);

  std::string_view rest_;
  std::string shown_as_;
  int64_t record_line_ = 0;
  int64_t next_line_ = 1;
};

}  // namespace hydrac::runtime
