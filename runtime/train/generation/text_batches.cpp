#include "runtime/train/generation/text_batches.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/train/generation/sampled_replies.h"

namespace hydrac::runtime {

namespace {

class Packer {
 public:
  Packer(const TextShape& shape, bool first_token) : shape_(shape), first_token_(first_token) {}

  void add(const EncodedText& text) {
    const auto size = static_cast<int64_t>(text.ids.size());
    if (size == 0 || size > shape_.tokens) throw std::logic_error("a text of no length that a row takes");
    if (batches_.empty() || used_ + size > shape_.tokens) next_row();
    Batch& batch = batches_.back();
    const int64_t row = row_ * shape_.tokens, begin = std::exchange(used_, used_ + size);
    std::ranges::copy(text.ids, batch.tokens.begin() + row + begin);
    std::fill_n(batch.segments.begin() + row + begin, first_token_ ? 1 : size, text.segment);
    add_document(batch, static_cast<size_t>(row), begin, used_);
    add_document(batch, static_cast<size_t>(row), used_, shape_.tokens);
  }

  std::vector<Batch> take() { return std::move(batches_); }

 private:
  void next_row() {
    used_ = 0;
    if (!batches_.empty() && ++row_ < shape_.rows) return;
    row_ = 0;
    const auto count = static_cast<size_t>(shape_.rows * shape_.tokens);
    Batch batch;
    batch.tokens.assign(count, 0);
    batch.documents.resize(2 * count);
    batch.positions.resize(count);
    batch.segments.assign(count, -1);
    for (int64_t row = 0; row < shape_.rows; ++row)
      add_document(batch, static_cast<size_t>(row * shape_.tokens), 0, shape_.tokens);
    batches_.push_back(std::move(batch));
  }

  const TextShape shape_;
  const bool first_token_;
  std::vector<Batch> batches_;
  int64_t row_ = 0, used_ = 0;  // of the last batch: the row that is filled, and its tokens so far
};

}  // namespace

std::vector<Batch> text_batches(std::span<const EncodedText> texts, const TextShape& shape,
                                bool first_token) {
  Packer packer(shape, first_token);
  for (const EncodedText& text : texts) packer.add(text);
  return packer.take();
}

}  // namespace hydrac::runtime
