// A file is
//   hydrac cudnn plan 1
//   KEY
//   ENGINE
//   BYTES HASH     of the rest
//   ...
#include "runtime/cudnn/plan_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/cuda/cache_file.h"
#include "runtime/data/hash.h"
#include "runtime/error.h"

namespace hydrac::runtime::cudnn {
namespace {

constexpr std::string_view kFirstLine = "hydrac cudnn plan 1";

// The text up to the next end of line, which is taken off.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

std::string checksum(std::string_view json) {
  return fmt::format("{} {:016x}", json.size(), Hash64().add(json).value());
}

}  // namespace

std::filesystem::path PlanCache::file(const std::string& key) const {
  return folder_ / fmt::format("{:016x}.cudnn-plan", Hash64().add(kFirstLine).add(key).value());
}

std::optional<StoredPlan> PlanCache::read(const std::string& key) const {
  if (!on()) return std::nullopt;
  const std::optional<std::string> content = cuda::read_whole(file(key));
  if (!content) return std::nullopt;
  std::string_view rest = *content;
  if (take_line(rest) != kFirstLine || take_line(rest) != key) return std::nullopt;
  const std::string_view engine = take_line(rest);
  const std::string_view expected = take_line(rest);
  if (expected != checksum(rest)) return std::nullopt;
  return StoredPlan{std::string(engine), std::string(rest)};
}

void PlanCache::write(const std::string& key, const StoredPlan& plan) const {
  if (!on()) return;
  const std::string content =
      fmt::format("{}\n{}\n{}\n{}\n{}", kFirstLine, key, plan.engine, checksum(plan.json), plan.json);
  if (!cuda::write_whole(file(key), content)) {
    throw RunError(
        fmt::format("cannot write into the cache folder {}: is the disk full or the folder read-only? Set "
                    "$HYDRAC_CACHE to a folder that can be written",
                    folder_.string()));
  }
}

}  // namespace hydrac::runtime::cudnn
