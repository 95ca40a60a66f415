#include "spec/spec.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "spec/key_table.h"

namespace hydrac::spec {
namespace {

void expect_key(std::string_view path) {
  if (find_key(path) == nullptr) throw std::logic_error(fmt::format("no such key in keys.def: {}", path));
}

}  // namespace

diag::Location Spec::where(std::string_view path) const {
  expect_key(path);
  const auto place = places_.find(path);
  return place == places_.end() ? diag::Location{} : place->second;
}

void Spec::set_where(std::string_view path, diag::Location location) {
  expect_key(path);
  places_[std::string(path)] = std::move(location);
}

}  // namespace hydrac::spec
