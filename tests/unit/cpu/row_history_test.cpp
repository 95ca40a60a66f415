// Histories of sequences side by side, a prompt and then token by token, against the rows as they came.
#include "cpu/row_history.h"

#include <gtest/gtest.h>

#include <vector>

namespace hydrac::cpu {
namespace {

using Floats = std::vector<float>;

constexpr std::int64_t kHeads = 2, kWidth = 3, kRow = kHeads * kWidth, kTokens = 9, kSequences = 3;

// Of every sequence; heads lie 5 floats apart, in rows of 12.
struct Rows {
  Rows() : all(kSequences * kTokens * 12) {
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i + 1);
  }
  ConstHeads from(std::int64_t sequence, std::int64_t token) const {
    return {all.data() + (sequence * kTokens + token) * 12, kTokens * 12, 12, 5};
  }
  // Element i of a row, 0 before the sequence.
  float at(std::int64_t sequence, std::int64_t token, std::int64_t i) const {
    return token < 0 ? 0 : *(from(sequence, token).at(0, 0, i / kWidth) + i % kWidth);
  }
  Floats all;
};

TEST(RowHistory, WindowsAreTheLastRows) {
  const Rows rows;
  for (const std::int64_t kept : {2, 4}) {
    Floats history(static_cast<size_t>(kSequences * kept * kRow), 7.0f);
    // Of prompts of two, six and no tokens.
    const std::int32_t sequences[] = {1, 0, -1}, ends[] = {1, 5, 3};
    const std::int64_t lengths[] = {6, 2, 0};
    const HistoryShape prompts{1, kept, kHeads, kWidth};
    for (int a = 0; a < 3; ++a)
      history_append(prompts, rows.from(std::max(sequences[a], 0), 0), sequences + a, ends + a,
                     history.data());
    for (std::int64_t i = 2 * kept * kRow; i < static_cast<std::int64_t>(history.size()); ++i)
      ASSERT_EQ(history[static_cast<size_t>(i)], 7.0f) << "nothing is kept of it";
    for (std::int64_t step = 0; step < 3; ++step) {
      std::int32_t positions[kSequences];
      Floats x;
      for (std::int64_t s = 0; s < kSequences; ++s) {
        positions[s] = static_cast<std::int32_t>(lengths[s] + step);
        for (std::int64_t i = 0; i < kRow; ++i) x.push_back(rows.at(s, positions[s], i));
      }
      Floats window(history.size(), -1.0f);
      history_window({kSequences, kept, kHeads, kWidth}, {x.data(), kRow, kRow, kWidth}, positions,
                     history.data(), window.data());
      for (std::int64_t at = 0; at < static_cast<std::int64_t>(window.size()); ++at) {
        const std::int64_t s = at / kRow / kept, token = positions[s] - (kept - 1 - at / kRow % kept);
        ASSERT_EQ(window[static_cast<size_t>(at)], rows.at(s, token, at % kRow))
            << kept << " rows, sequence " << s << ", token " << token;
      }
    }
  }
}

}  // namespace
}  // namespace hydrac::cpu
