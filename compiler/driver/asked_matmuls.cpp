#include "driver/asked_matmuls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "diag/render.h"
#include "diag/suggest.h"
#include "passes/asked_matmuls.h"
#include "runtime/error.h"

namespace hydrac::driver {

namespace {

using passes::MatmulChoice;
using passes::MatmulChoices;

class Check {
 public:
  Check(const spec::Spec& spec, const char* key, const MatmulChoices& matmuls)
      : spec_(spec), key_(key), matmuls_(matmuls) {}

  // The matmuls that the pattern names, one at least.
  MatmulChoices named(const std::string& pattern) const {
    MatmulChoices named;
    for (const MatmulChoice& matmul : matmuls_)
      if (passes::names_matmul({&pattern, 1}, matmul.name)) named.push_back(matmul);
    if (named.empty())
      refuse(fmt::format("no matmul that could be hydrac's is named {}{}", diag::printable(pattern),
                         help(pattern)));
    return named;
  }

  [[noreturn]] void refuse(const std::string& message) const {
    const diag::Location where = spec_.where(key_);
    const std::string place =
        where.known() ? fmt::format("{}:{}:{}: ", where.file, where.line, where.col) : "";
    throw runtime::InputError(fmt::format("{}{}: {}", place, key_, message));
  }

 private:
  std::string help(const std::string& pattern) const {
    std::set<std::string> names;
    for (const MatmulChoice& matmul : matmuls_) names.insert(matmul.name);
    const std::vector<std::string> known(names.begin(), names.end());
    if (const std::string meant = diag::nearest(pattern, known); !meant.empty())
      return fmt::format("; did you mean {}?", meant);
    return known.empty() ? ", and there is none" : fmt::format("; there are {}", fmt::join(known, ", "));
  }

  const spec::Spec& spec_;
  const char* const key_;
  const MatmulChoices& matmuls_;
};

}  // namespace

void require_asked_matmuls(const spec::Spec& spec, const MatmulChoices& matmuls) {
  const auto& o = spec.optimizations;
  const Check own(spec, "optimizations.own_matmuls", matmuls),
      library(spec, "optimizations.library_matmuls", matmuls);
  for (const std::string& pattern : o.own_matmuls) {
    const MatmulChoices named = own.named(pattern);
    for (const MatmulChoice& matmul : named) {
      if (passes::names_matmul(o.library_matmuls, matmul.name))
        own.refuse(fmt::format("{} is named by library_matmuls too", matmul.name));
    }
    if (std::ranges::none_of(named, &MatmulChoice::is_ours))
      own.refuse(fmt::format("{} stays the library's: {}", named.front().name,
                             named.front().together.empty()
                                 ? "hydrac's kernel does not take its sizes, or nothing that follows it"
                                 : "gradients of weights are one kernel together, so name two of a layer"));
  }
  for (const std::string& pattern : o.library_matmuls) library.named(pattern);
}

}  // namespace hydrac::driver
