#include "runtime/text/tokenizer/token_cache.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace fs = std::filesystem;

namespace {

// An open file and the lock on it; the kernel drops the lock with the process.
struct Lock {
  int fd;
  ~Lock() { ::close(fd); }
};

}  // namespace

TokenCache::TokenCache(fs::path folder, uint64_t key, uint64_t fingerprint, Notice notice)
    : folder_(std::move(folder)),
      file_(folder_ / fmt::format("tokens-{:016x}.bin", key)),
      key_(key),
      fingerprint_(fingerprint),
      notice_(std::move(notice)) {}

void TokenCache::tell(const std::string& line) const {
  if (notice_) notice_(line);
}

std::optional<TokenShard> TokenCache::find() const {
  std::error_code error;
  if (!fs::exists(file_, error)) return std::nullopt;
  const std::string name = file_.generic_string();
  try {
    TokenShard shard = open_token_shard(file_, name);
    const bool ours = shard.cache_key == key_ && shard.fingerprint == fingerprint_ && shard.payload_hash != 0;
    if (ours) return shard;
    tell(fmt::format("{}: not the token cache that its name says; making it anew", name));
  } catch (const InputError& damage) {
    tell(fmt::format("{}; making the token cache anew", damage.what()));
  }
  fs::remove(file_, error);  // told once; what cannot be removed is replaced by store() or stays
  return std::nullopt;
}

std::shared_ptr<void> TokenCache::lock() const {
  std::error_code error;
  fs::create_directories(folder_, error);
  const int fd = ::open((folder_ / "tokens.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return nullptr;
  const std::shared_ptr<void> held(new Lock{fd});
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return held;
  if (errno != EWOULDBLOCK) return nullptr;  // a file system without locks
  tell("waiting for another process that fills the token cache");
  while (::flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) return nullptr;
  }
  return held;
}

// Temporary files of processes that were killed while they wrote this file.
void TokenCache::remove_leftovers() const {
  const std::string prefix = file_.filename().string() + ".tmp-";
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->path().filename().string().starts_with(prefix)) fs::remove(it->path(), ignored);
  }
}

std::optional<TokenShard> TokenCache::store(std::string_view payload, int width, bool locked) const {
  try {
    fs::create_directories(folder_);
    if (locked) remove_leftovers();
    write_token_shard(file_, payload, width, fingerprint_, key_);
    return open_token_shard(file_, file_.generic_string());
  } catch (const std::system_error& error) {
    tell(fmt::format(
        "{}: cannot store the token cache ({}); tokens stay in memory, and the next run tokenizes again",
        folder_.generic_string(), error.code().message()));
  } catch (const InputError& error) {  // written, and yet not readable: a failing disk, or someone removed it
    tell(fmt::format("{}; tokens stay in memory", error.what()));
  }
  return std::nullopt;
}

}  // namespace hydrac::runtime
