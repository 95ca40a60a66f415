// The texts that generate_batch() works on: the sequence of the program's cache that each one has, and its
// pages.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/data/tokenizer.h"
#include "runtime/train/generation/cache_pages.h"
#include "runtime/train/generation/generate.h"
#include "runtime/train/generation/stop_strings.h"

namespace hydrac::runtime {

// A text on its way.
struct Text {
  Text(size_t request, const TextRequest& from, const Tokenizer& tokenizer, const GenerateOptions& options)
      : request(request),
        ids(from.prompt),
        prompt_tokens(from.prompt.size()),
        sampling(options.sampling),
        decoder(tokenizer),
        stops(options.stop) {
    sampling.seed = from.seed;
  }

  size_t request;
  std::vector<int32_t> ids;  // prompt and text
  size_t prompt_tokens;
  SampleOptions sampling;
  StreamDecoder decoder;
  StopStrings stops;
  // Number of ids, from the first on, whose keys and values are in the cache: all but the last one, or fewer
  // after the text was put back.
  size_t cached = 0;
  Reply reply;

  // True if the token after the logits `more` steps from now is known: it was drawn before the text was put
  // back.
  bool knows_next(size_t more) const { return cached + more < ids.size(); }
};

class TextRows {
 public:
  // `context`: tokens that the program sees. A program without a cache has one row.
  TextRows(const CacheShape& cache, size_t context, std::span<const TextRequest> requests,
           const Tokenizer& tokenizer, const GenerateOptions& options);

  size_t size() const { return rows_.size(); }
  std::optional<Text>& operator[](size_t row) { return rows_[row]; }
  const std::optional<Text>& operator[](size_t row) const { return rows_[row]; }
  bool is_any_under_way() const;

  // Puts a text into an empty row, with the pages of all its known tokens: the oldest that was put back, else
  // that of the next request. False if there is none, or too few pages are free. std::logic_error if pages
  // are missing although no text is running.
  bool take_up(size_t row);
  void end(size_t row);
  int64_t texts_put_back() const { return texts_put_back_; }

  bool is_past_context(const Text& text) const { return text.ids.size() > context_; }
  // True for texts whose keys and values the program does not have, or has for another view of them.
  bool is_computed_whole(const Text& text) const { return text.cached == 0 || is_past_context(text); }
  // The part of a text that is computed as a whole: its prompt, also after it was put back, or the last
  // tokens of a text past the context.
  std::span<const int32_t> whole_part(const Text& text) const;

  // Gives every cached text the page of its next token, the oldest first; if none is free, the youngest is
  // put back. So the oldest always goes on, and ends.
  void grow_all();
  // The same of one text, `more` tokens further on; false where no page is free.
  bool grow(size_t row, size_t more);
  void release_pages(size_t row) { pages_.release(row); }
  const CachePages& pages() const { return pages_; }

 private:
  int64_t tokens_to_keep(size_t ids) const;
  void put_back(size_t row);

  const size_t context_;
  const std::span<const TextRequest> requests_;
  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  std::vector<std::optional<Text>> rows_;  // by the cache's sequences
  std::map<size_t, Text> put_back_;        // by their requests, which are their age
  size_t next_ = 0;                        // request
  CachePages pages_;
  int64_t texts_put_back_ = 0;
};

}  // namespace hydrac::runtime
