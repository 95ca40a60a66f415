#include "runtime/text/unpack.h"

#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>

#include "runtime/data/text_bytes.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

constexpr size_t kChunk = size_t{1} << 18;

// The contents unpacked so far, and the errors that name them.
class Unpacking {
 public:
  Unpacking(std::string shown_as, const char* packer, size_t most)
      : shown_as_(std::move(shown_as)), packer_(packer), most_(most) {}

  void add(const char* bytes, size_t count) {
    if (count > most_ - text_.size())
      throw InputError(
          fmt::format("{}: it unpacks to more than {} bytes, which is too much to hold in memory at "
                      "once: unpack it to a file",
                      shown_as_, most_));
    text_.append(bytes, count);
  }
  [[noreturn]] void damaged() const {
    throw InputError(
        fmt::format("{}: {} data is damaged after {} unpacked bytes", shown_as_, packer_, text_.size()));
  }
  [[noreturn]] void cut_short() const {
    throw InputError(fmt::format("{}: {} data is cut short", shown_as_, packer_));
  }
  std::string take() { return std::move(text_); }

 private:
  const std::string shown_as_;
  const char* const packer_;
  const size_t most_;
  std::string text_;
};

// zlib's state, released whatever happens.
struct Inflater {
  z_stream stream{};
  Inflater() {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

void gunzip(std::string_view bytes, Unpacking& contents) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::string chunk(kChunk, '\0');
  int state = Z_OK;
  for (;;) {
    if (stream.avail_in == 0) {
      const size_t most = std::min<size_t>(bytes.size(), std::numeric_limits<uInt>::max());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream.avail_in = static_cast<uInt>(most);
      bytes.remove_prefix(most);
    }
    if (stream.avail_in == 0) break;
    if (state == Z_STREAM_END) {
      // Zeros behind a member are padding of tapes and blocks; another member may follow.
      while (stream.avail_in > 0 && *stream.next_in == 0) ++stream.next_in, --stream.avail_in;
      if (stream.avail_in == 0) continue;
      inflateReset(&stream);
    }
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    state = inflate(&stream, Z_NO_FLUSH);
    if (state == Z_MEM_ERROR) throw std::bad_alloc();
    if (state != Z_OK && state != Z_STREAM_END) contents.damaged();
    contents.add(chunk.data(), chunk.size() - stream.avail_out);
  }
  if (state != Z_STREAM_END) contents.cut_short();
}

void unzstd(std::string_view bytes, Unpacking& contents) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) throw std::bad_alloc();
  std::string chunk(kChunk, '\0');
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer out = {chunk.data(), chunk.size(), 0};
  size_t more = 1;  // 0: a frame has ended
  // A full chunk may leave contents behind, without bytes to read.
  while (in.pos < in.size || (out.pos == out.size && more != 0)) {
    out.pos = 0;
    more = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(more)) contents.damaged();
    contents.add(chunk.data(), out.pos);
  }
  if (more != 0) contents.cut_short();
}

}  // namespace

size_t most_unpacked_bytes() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE)) / 2;
}

std::string unpacked(Packing packing, std::string_view bytes, const std::string& shown_as, size_t most) {
  const bool gzip = packing == Packing::gzip;
  if (gzip ? !looks_gzipped(bytes) : !looks_zstd(bytes))
    throw InputError(fmt::format("{}: its name ends in {}, and it is not compressed by {}", shown_as,
                                 gzip ? ".gz" : ".zst", gzip ? "gzip" : "zstd"));
  Unpacking contents(shown_as, gzip ? "gzip" : "zstd", most);
  gzip ? gunzip(bytes, contents) : unzstd(bytes, contents);
  return contents.take();
}

}  // namespace hydrac::runtime
