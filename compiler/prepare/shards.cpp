#include "prepare/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/data/token_shard.h"

namespace hydrac::prepare {

namespace {

class ShardWriter {
 public:
  ShardWriter(const ShardOptions& options, int width)
      : options_(options), width_(static_cast<uint64_t>(width)) {}

  void append(std::string_view ids) {
    while (!ids.empty()) {
      const std::string_view part = ids.substr(0, options_.tokens * width_ - payload_.size());
      payload_ += part;
      ids.remove_prefix(part.size());
      if (payload_.size() == options_.tokens * width_) write();
    }
  }
  std::vector<std::string> finish() {
    if (!payload_.empty()) write();
    return std::move(names_);
  }

 private:
  void write() {
    names_.push_back(fmt::format("{}-{:05}.bin", options_.prefix, names_.size() + 1));
    runtime::write_token_shard(options_.folder / names_.back(), payload_, static_cast<int>(width_),
                               options_.fingerprint, 0);
    written_ += payload_.size() / width_;
    payload_.clear();
    if (options_.done) options_.done(static_cast<int64_t>(written_));
  }

  const ShardOptions& options_;
  uint64_t width_;
  std::string payload_;
  std::vector<std::string> names_;
  uint64_t written_ = 0;
};

}  // namespace

std::vector<std::string> write_shards(const TokenCorpus& corpus, const std::vector<Stretch>& stretches,
                                      const ShardOptions& options) {
  const auto width = static_cast<uint64_t>(corpus.width);
  const std::string_view ids = corpus.file->bytes();
  std::string end;
  if (options.end_of_text)
    end.assign(reinterpret_cast<const char*>(&*options.end_of_text), width);  // little-endian
  ShardWriter writer(options, corpus.width);
  for (const Stretch& stretch : stretches) {
    writer.append(ids.substr(stretch.begin * width, (stretch.end - stretch.begin) * width));
    if (stretch.add_end) writer.append(end);
  }
  return writer.finish();
}

}  // namespace hydrac::prepare
