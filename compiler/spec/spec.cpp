#include "spec/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "spec/keys/key_table.h"

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

double rope_base(const SpecKeys& spec) {
  const Model& m = spec.model;
  if (!scales_rope(m, RopeType::dynamic)) return m.rope_theta;
  const double width = static_cast<double>(rope_width(m)), factor = m.rope_scaling.factor,
               length = static_cast<double>(spec.train.sequence_len) /
                        static_cast<double>(m.rope_scaling.original_max_position_embeddings);
  return m.rope_theta * std::pow(factor * std::max(length, 1.0) - (factor - 1), width / (width - 2));
}

double usual_attention_factor(const RopeScaling& scaling) {
  const double length = static_cast<double>(scaling.original_max_position_embeddings);
  if (scaling.rope_type == RopeType::yarn) return 0.1 * std::log(scaling.factor) + 1;
  if (scaling.rope_type == RopeType::longrope && scaling.factor > 1)
    return std::sqrt(1 + std::log(scaling.factor) / std::log(length));
  return 1;
}

const Numbers& rope_pair_factors(const SpecKeys& spec) {
  static const Numbers none;
  if (!scales_rope(spec.model, RopeType::longrope)) return none;
  const RopeScaling& scaling = spec.model.rope_scaling;
  return spec.train.sequence_len > scaling.original_max_position_embeddings ? scaling.long_factor
                                                                            : scaling.short_factor;
}

}  // namespace hydrac::spec
