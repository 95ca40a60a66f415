// The documents' tokens.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "prepare/text_corpus.h"
#include "runtime/data/mapped_file.h"
#include "runtime/data/tokenizer.h"

namespace hydrac::prepare {

struct TokenCorpus {
  std::shared_ptr<const runtime::MappedFile> file;  // ids of `width` bytes, little-endian
  int width = 2;                                    // bytes: 4 for vocabularies above 65536
  std::vector<uint64_t> ends;  // of each document, in tokens: behind its end-of-text token

  uint64_t begin(size_t document) const { return document == 0 ? 0 : ends[document - 1]; }
};

// The ids of each document, each followed by the tokenizer's end-of-text token if it has one. Texts between
// `places` (see cut_places()) are encoded separately, by several threads. `scratch`: a temporary file.
// InputError as encode(), naming the file.
TokenCorpus encode_corpus(const TextCorpus& corpus, const runtime::Tokenizer& tokenizer,
                          const std::vector<uint64_t>& places, int threads,
                          const std::filesystem::path& scratch,
                          const std::function<void(int64_t done, int64_t of)>& progress = {});

}  // namespace hydrac::prepare
