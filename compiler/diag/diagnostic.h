// A mistake in the user's input: a kind, a place, a message, and advice. Errors are values on their way to
// the user: all mistakes are collected in one run, and nothing is thrown.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diag/location.h"

namespace hydrac::diag {

enum class Severity { error, warning };

// Every kind of diagnostic, registered in kinds.def.
enum class Kind {
#define KIND(name, severity, doc) name,
#include "diag/kinds.def"
#undef KIND
};

// The id people see: "heads-divide-width" for Kind::heads_divide_width.
std::string id(Kind kind);
Severity severity(Kind kind);
std::string_view doc(Kind kind);
std::span<const Kind> all_kinds();

struct Diagnostic {
  Kind kind;
  Location where;          // may be nowhere, when only default values are to blame
  std::string message;     // what is wrong; no full stop, no line breaks
  std::string suggestion;  // what to write instead; may be empty
};

// Collects diagnostics and the texts they point into.
class Diagnostics {
 public:
  void report(Kind kind, Location where, std::string message, std::string suggestion = "");

  // Keeps the text behind the file name that locations use, for quoting its lines.
  void add_source(const std::string& file, std::string text);

  bool has_errors() const { return errors_ > 0; }
  size_t errors() const { return errors_; }
  const std::vector<Diagnostic>& all() const { return all_; }

  // The line (without its end) that `where` points at; empty when its source is not known.
  std::string_view source_line(const Location& where) const;

  // Every diagnostic in the order of files, lines and columns (errors reported at the same place in the order
  // they came), each as `FILE:LINE:COL: error: message [kind]`, the line, a caret, and `  help: suggestion`.
  std::string render() const;

 private:
  struct Source {
    size_t order;  // files are shown in the order of add_source
    std::string text;
    std::vector<size_t> line_starts;
  };

  std::vector<Diagnostic> all_;
  std::map<std::string, Source, std::less<>> sources_;
  size_t errors_ = 0;
};

}  // namespace hydrac::diag
