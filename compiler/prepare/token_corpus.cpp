#include "prepare/token_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "prepare/ordered_work.h"
#include "prepare/scratch_file.h"
#include "runtime/error.h"

namespace hydrac::prepare {

namespace {

struct Encoded {
  std::string bytes;
  std::vector<uint64_t> ends;  // of the documents that end here, in tokens of this text
  uint64_t tokens = 0;
};

void append(const std::vector<int32_t>& ids, int width, std::string& bytes) {
  const size_t old = bytes.size();
  bytes.resize(old + ids.size() * static_cast<size_t>(width));
  char* to = bytes.data() + old;
  for (const int32_t id : ids) {
    std::memcpy(to, &id, static_cast<size_t>(width));  // the project's targets are little-endian
    to += width;
  }
}

}  // namespace

TokenCorpus encode_corpus(const TextCorpus& corpus, const runtime::Tokenizer& tokenizer,
                          const std::vector<uint64_t>& places, int threads,
                          const std::filesystem::path& scratch,
                          const std::function<void(int64_t, int64_t)>& progress) {
  TokenCorpus tokens;
  tokens.width = tokenizer.vocab_size() <= 65536 ? 2 : 4;
  ScratchFile file(scratch);
  uint64_t count = 0;
  const auto encode = [&](size_t i) {
    Encoded out;
    std::vector<int32_t> ids;
    const uint64_t end = places[i + 1];
    for (uint64_t at = places[i]; at < end;) {
      const size_t document = document_at(corpus, at);
      const uint64_t stop = std::min(corpus.ends[document], end);
      ids.clear();
      try {
        tokenizer.encode_to(corpus.text->bytes().substr(at, stop - at), ids);
      } catch (const runtime::InputError& error) {
        throw runtime::InputError(
            fmt::format("{}: {}", corpus.files[corpus.file_of[document]], error.what()));
      }
      const bool ends = stop == corpus.ends[document];
      if (ends && tokenizer.end_of_text()) ids.push_back(*tokenizer.end_of_text());
      append(ids, tokens.width, out.bytes);
      out.tokens += ids.size();
      if (ends) out.ends.push_back(out.tokens);
      at = stop;
    }
    return out;
  };
  for_each_in_order<Encoded>(places.size() - 1, threads, encode, [&](size_t i, Encoded&& out) {
    file.append(out.bytes);
    for (const uint64_t end : out.ends) tokens.ends.push_back(count + end);
    count += out.tokens;
    if (progress) progress(static_cast<int64_t>(places[i + 1]), static_cast<int64_t>(places.back()));
  });
  tokens.file = file.map();
  return tokens;
}

}  // namespace hydrac::prepare
