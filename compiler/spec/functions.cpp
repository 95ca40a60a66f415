#include "spec/functions.h"

#include <fmt/format.h>

#include <stdexcept>

#include "spec/keys/key_table.h"
#include "spec/reader/paths.h"
#include "spec/reader/source.h"
#include "specialize/lift/lift_function.h"

namespace hydrac::spec {
namespace {

using diag::Kind;
using specialize::FunctionProblem;
using specialize::WantedFunction;

WantedFunction wanted_by(std::string_view path) {
  if (path == "model.hidden_act")
    return {.signatures = {"float f(float x)", "float f(float gate, float up)"}, .differentiated = 2};
  // Not by the target.
  if (path == "train.loss")
    return {.signatures = {"float f(float prediction, float target)"}, .differentiated = 1};
  if (path == "train.lr_scheduler.name")
    return {.signatures = {"float f(float step, float max_steps)"}, .may_be_double = true};
  throw std::logic_error(fmt::format("{} takes a function, and nobody says which", path));
}

void report(Kind kind, const FunctionProblem& problem, const std::string& file, const CppFunction& function,
            diag::Diagnostics& diagnostics) {
  if (problem.line == 0)
    return diagnostics.report(kind == Kind::function_refused ? Kind::unknown_function : kind,
                              function.function_where, problem.message, problem.suggestion);
  diagnostics.report(kind, {file, problem.line, problem.column}, problem.message, problem.suggestion);
}

bool lift(const KeyRow& row, CppFunction& function, diag::Diagnostics& diagnostics) {
  const bool is_read = function.text.empty();
  const std::string file = is_read ? path_from(function.cpp_where, function.cpp, diagnostics) : function.cpp;
  if (is_read) {
    const std::optional<std::string> text = read_source(file, function.cpp_where, diagnostics);
    if (!text) return false;
    function.text = *text;
  } else {
    diagnostics.add_source(file, function.text);
  }
  if (!is_clean_text(file, function.text, diagnostics, "a function is C++ in UTF-8")) return false;
  specialize::LiftedFunction lifted =
      specialize::lift_function(file, function.text, function.function, wanted_by(row.path));
  for (const FunctionProblem& problem : lifted.errors)
    report(Kind::function_refused, problem, file, function, diagnostics);
  for (const FunctionProblem& problem : lifted.warnings)
    report(Kind::derivative_overflows, problem, file, function, diagnostics);
  if (!lifted.function) return false;
  function.lifted = std::move(*lifted.function);
  return true;
}

}  // namespace

void lift_functions(Draft& draft) {
  visit_keys(draft.spec, [&](const KeyRow& row, auto& field) {
    if constexpr (is_word_or_function<std::decay_t<decltype(field)>>) {
      if (field.function && draft.usable({row.path}) && !lift(row, *field.function, draft.diagnostics))
        draft.broken.insert(row.path);
    }
  });
}

}  // namespace hydrac::spec
