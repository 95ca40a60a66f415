#include "runtime/data/token_shard.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "runtime/data/data_identity.h"
#include "runtime/data/hash.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

constexpr char kMagic[] = {'H', 'Y', 'D', 'R', 'A', 'T', 'O', 'K'};
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t width;
  uint64_t count;
  uint64_t fingerprint;
  uint64_t cache_key;
  uint64_t payload_hash;
  uint64_t reserved[2];
};
static_assert(sizeof(Header) == 64);

struct LlmcFormat {
  int32_t magic, version;
  int width;
};
constexpr auto kLlmcFormats = std::to_array<LlmcFormat>({{20240520, 1, 2}, {20240801, 7, 4}});
constexpr size_t kLlmcHeader = 256 * sizeof(int32_t);

void check_size(const TokenShard& shard, uint64_t header, uint64_t count, const std::string& shown_as) {
  const uint64_t have = shard.file->bytes().size() - header;
  const auto width = static_cast<uint64_t>(shard.width);
  if (have % width != 0 || have / width != count) {
    throw InputError(fmt::format("{}: its header says {} tokens of {} bytes, but {} bytes follow it",
                                 shown_as, count, width, have));
  }
}

TokenShard read_ours(TokenShard shard, const std::string& shown_as) {
  const std::string_view bytes = shard.file->bytes();
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion) {
    throw InputError(
        fmt::format("{}: token file version {}; this program reads {}", shown_as, header.version, kVersion));
  }
  if (header.width != 2 && header.width != 4) {
    throw InputError(fmt::format("{}: tokens of {} bytes; they must have 2 or 4", shown_as, header.width));
  }
  shard.width = static_cast<int>(header.width);
  check_size(shard, sizeof header, header.count, shown_as);
  shard.count = static_cast<int64_t>(header.count);
  shard.payload = bytes.substr(sizeof header);
  shard.fingerprint = header.fingerprint;
  shard.cache_key = header.cache_key;
  shard.payload_hash = header.payload_hash;
  return shard;
}

// nullptr where the bytes do not begin as llm.c's files.
const LlmcFormat* llmc_format(std::string_view bytes) {
  int32_t magic = 0;
  if (bytes.size() >= kLlmcHeader) std::memcpy(&magic, bytes.data(), sizeof magic);
  const auto format = std::ranges::find(kLlmcFormats, magic, &LlmcFormat::magic);
  return format != kLlmcFormats.end() ? &*format : nullptr;
}

TokenShard read_llmc(TokenShard shard, const LlmcFormat& format, const std::string& shown_as) {
  const std::string_view bytes = shard.file->bytes();
  std::array<int32_t, 3> header;
  std::memcpy(header.data(), bytes.data(), sizeof header);
  if (header[1] != format.version) {
    throw InputError(fmt::format("{}: llm.c token file version {}; this program reads {}", shown_as,
                                 header[1], format.version));
  }
  shard.width = format.width;
  check_size(shard, kLlmcHeader, static_cast<uint64_t>(static_cast<uint32_t>(header[2])), shown_as);
  shard.count = static_cast<uint32_t>(header[2]);
  shard.payload = bytes.substr(kLlmcHeader);
  return shard;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void write_all(int fd, std::string_view bytes, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(what);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

// A file that is deleted unless it was renamed.
class TempFile {
 public:
  explicit TempFile(const std::filesystem::path& target) : name_(target.string() + ".tmp-XXXXXX") {
    fd_ = ::mkstemp(name_.data());
    if (fd_ < 0) fail(name_);
  }
  ~TempFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  void write(std::string_view bytes) { write_all(fd_, bytes, name_); }
  void publish(const std::filesystem::path& target) {
    if (::fchmod(fd_, 0644) != 0 || ::fsync(fd_) != 0) fail(name_);
    if (::rename(name_.c_str(), target.c_str()) != 0) fail(target.string());
    name_.clear();
    sync_folder(target.parent_path());
  }

 private:
  // So that the new name survives a power failure as well.
  static void sync_folder(const std::filesystem::path& folder) {
    const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    ::fsync(fd);
    ::close(fd);
  }

  std::string name_;
  int fd_ = -1;
};

}  // namespace

bool has_shard_header(std::string_view bytes) {
  const bool is_ours = bytes.size() >= sizeof(Header) && bytes.starts_with({kMagic, sizeof kMagic});
  return is_ours || llmc_format(bytes) != nullptr;
}

TokenShard open_token_shard(const std::filesystem::path& path, const std::string& shown_as,
                            const std::filesystem::path& cache_dir) {
  TokenShard shard;
  shard.file = MappedFile::open(path, shown_as);
  const std::string_view bytes = shard.file->bytes();
  if (!has_shard_header(bytes))
    throw InputError(
        fmt::format("{}: not a token file: it begins with neither hydrac's header nor llm.c's", shown_as));
  const LlmcFormat* format = llmc_format(bytes);
  shard = format ? read_llmc(std::move(shard), *format, shown_as) : read_ours(std::move(shard), shown_as);
  const uint64_t hash = hash_of_file(path, shard.payload, cache_dir);
  if (shard.payload_hash != 0 && hash != shard.payload_hash)
    throw InputError(fmt::format("{}: its tokens do not match its checksum; the file is damaged", shown_as));
  shard.payload_hash = hash;
  return shard;
}

void write_token_shard(const std::filesystem::path& path, std::string_view payload, int width,
                       uint64_t fingerprint, uint64_t cache_key) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.width = static_cast<uint32_t>(width);
  header.count = payload.size() / static_cast<size_t>(width);
  header.fingerprint = fingerprint;
  header.cache_key = cache_key;
  header.payload_hash = Hash64().add(payload).value();
  TempFile file(path);
  file.write({reinterpret_cast<const char*>(&header), sizeof header});
  file.write(payload);
  file.publish(path);
}

}  // namespace hydrac::runtime
