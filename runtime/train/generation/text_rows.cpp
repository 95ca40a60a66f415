#include "runtime/train/generation/text_rows.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace hydrac::runtime {

TextRows::TextRows(const CacheShape& cache, size_t context, std::span<const TextRequest> requests,
                   const Tokenizer& tokenizer, const GenerateOptions& options)
    : context_(context),
      requests_(requests),
      tokenizer_(tokenizer),
      options_(options),
      rows_(static_cast<size_t>(std::max<int64_t>(cache.sequences, 1))),
      pages_(cache) {}

bool TextRows::is_any_under_way() const {
  return std::ranges::any_of(rows_, [](const auto& text) { return text.has_value(); });
}

bool TextRows::take_up(size_t row) {
  if (put_back_.empty() && next_ == requests_.size()) return false;
  const size_t known =
      put_back_.empty() ? requests_[next_].prompt.size() : put_back_.begin()->second.ids.size();
  if (!pages_.grow(row, tokens_to_keep(known))) {
    if (!is_any_under_way()) throw std::logic_error("the cache's pages do not hold one text");
    return false;
  }
  if (put_back_.empty()) {
    rows_[row].emplace(next_, requests_[next_], tokenizer_, options_);
    ++next_;
  } else {
    rows_[row].emplace(std::move(put_back_.begin()->second));
    put_back_.erase(put_back_.begin());
  }
  return true;
}

void TextRows::end(size_t row) {
  pages_.release(row);
  rows_[row].reset();
}

std::span<const int32_t> TextRows::whole_part(const Text& text) const {
  const std::span<const int32_t> ids = text.ids;
  return is_past_context(text) ? ids.last(context_) : ids.first(text.prompt_tokens);
}

// The tokens to cache: those of `ids` and the next one. A text that grows past the context is computed whole
// for each token, and needs no cache.
int64_t TextRows::tokens_to_keep(size_t ids) const {
  return ids > context_ ? 0 : static_cast<int64_t>(std::min(ids + 1, context_));
}

bool TextRows::grow(size_t row, size_t more) {
  return pages_.grow(row, static_cast<int64_t>(rows_[row]->cached + 1 + more));
}

void TextRows::grow_all() {
  std::map<size_t, size_t> rows;  // by request
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row] && !is_computed_whole(*rows_[row])) rows.emplace(rows_[row]->request, row);
  }
  for (auto text = rows.begin(); text != rows.end(); ++text) {
    while (!grow(text->second, 0)) {
      const auto youngest = std::prev(rows.end());
      if (youngest == rows.begin()) throw std::logic_error("the cache's pages do not hold one text");
      put_back(youngest->second);
      if (youngest == text) return;
      rows.erase(youngest);
    }
  }
}

void TextRows::put_back(size_t row) {
  ++texts_put_back_;
  rows_[row]->cached = 0;
  put_back_.emplace(rows_[row]->request, std::move(*rows_[row]));
  end(row);
}

}  // namespace hydrac::runtime
