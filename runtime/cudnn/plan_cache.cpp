// A sealed file is
//   hydrac cudnn plan 2
//   KEY
//   ENGINE
//   ...
#include "runtime/cudnn/plan_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/cache/cache_warning.h"
#include "runtime/cache/sealed_file.h"
#include "runtime/data/hash.h"

namespace hydrac::runtime::cudnn {
namespace {

constexpr std::string_view kFirstLine = "hydrac cudnn plan 2";

// The text up to the next end of line, which is taken off.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

}  // namespace

std::filesystem::path PlanCache::file(const std::string& key) const {
  return folder_ / fmt::format("{:016x}.cudnn-plan", Hash64().add(kFirstLine).add(key).value());
}

std::optional<StoredPlan> PlanCache::read(const std::string& key) const {
  if (!on()) return std::nullopt;
  const std::optional<std::string> content = read_sealed(file(key));
  if (!content) return std::nullopt;
  std::string_view rest = *content;
  if (take_line(rest) != kFirstLine || take_line(rest) != key) return std::nullopt;
  const std::string_view engine = take_line(rest);
  return StoredPlan{std::string(engine), std::string(rest)};
}

void PlanCache::write(const std::string& key, const StoredPlan& plan) const {
  if (!on()) return;
  if (!write_sealed(file(key), fmt::format("{}\n{}\n{}\n{}", kFirstLine, key, plan.engine, plan.json)))
    warn_of_unwritable_cache(folder_);
}

}  // namespace hydrac::runtime::cudnn
