#include "runtime/text/gunzip.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "runtime/data/text_bytes.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

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

}  // namespace

std::string gunzip(std::string_view bytes, const std::string& shown_as) {
  if (!looks_gzipped(bytes))
    throw InputError(fmt::format("{}: its name ends in .gz, and it is not compressed by gzip", shown_as));
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::string text, chunk(size_t{1} << 18, '\0');
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
    if (state != Z_OK && state != Z_STREAM_END)
      throw InputError(
          fmt::format("{}: gzip data is damaged after {} unpacked bytes", shown_as, text.size()));
    text.append(chunk.data(), chunk.size() - stream.avail_out);
  }
  if (state != Z_STREAM_END) throw InputError(fmt::format("{}: gzip data is cut short", shown_as));
  return text;
}

}  // namespace hydrac::runtime
