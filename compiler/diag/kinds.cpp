#include <array>

#include "diag/diagnostic.h"

namespace hydrac::diag {
namespace {

struct Row {
  std::string_view name;
  Severity severity;
  std::string_view doc;
};

constexpr std::array kRows = {
#define KIND(name, severity, doc) Row{#name, Severity::severity, doc},
#include "diag/kinds.def"
#undef KIND
};

constexpr std::array kKinds = {
#define KIND(name, severity, doc) Kind::name,
#include "diag/kinds.def"
#undef KIND
};

const Row& row(Kind kind) {
  return kRows[static_cast<size_t>(kind)];
}

}  // namespace

std::string id(Kind kind) {
  std::string dashed(row(kind).name);
  for (char& c : dashed)
    if (c == '_') c = '-';
  return dashed;
}

Severity severity(Kind kind) {
  return row(kind).severity;
}

std::string_view doc(Kind kind) {
  return row(kind).doc;
}

std::span<const Kind> all_kinds() {
  return kKinds;
}

}  // namespace hydrac::diag
