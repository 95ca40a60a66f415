// Histories of rows on CUDA, emulated: a prompt and then token by token, against the rows as they came.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/history_geometry.h"
#include "cuda/types.cuh"
#include "emulated_kernels.h"

namespace hydrac::emulation {
namespace {

constexpr int kSequences = 3, kTokens = 9;

struct HistoryCase {
  int rows, heads, width;
  int row() const { return heads * width; }
};

template <typename T>
constexpr const char* kElement = "float";
template <>
constexpr const char* kElement<bf16> = "hydrac::bf16";

// Kernels for prompts [S,T,..], of which the first is of no sequence, and for a token of each sequence.
template <typename T>
std::string source_of(const HistoryCase& c) {
  return fmt::format(R"(#include "cuda/row_history.cuh"
using namespace hydrac;
using Shape = cuda::HistoryShape<{0}, {1}, {2}, {3}, {4}>;
extern "C" __global__ void append(const {0}* x, const int* sequences, const int* ends, {0}* history) {{
  cuda::history_append<Shape>({{x, {5}, {6}, {4}}}, sequences, ends, history);
}}
extern "C" __global__ void window(const {0}* x, const int* positions, {0}* history, {0}* window) {{
  cuda::history_window<Shape>({{x, {6}, {6}, {4}}}, positions, history, window);
}}
)",
                     kElement<T>, kSequences, c.rows, c.heads, c.width, kTokens * c.row(), c.row());
}

template <typename T>
class History {
 public:
  explicit History(const HistoryCase& c)
      : c_(c),
        kernels_(source_of<T>(c), {"append", "window"}),
        history_(size(kSequences * c.rows * c.row())) {
    for (int i = 0; i < kSequences * kTokens * c.row(); ++i)
      tokens_.push_back(from_float<T>(static_cast<float>(i % 199 + 1)));
    blocks_ = static_cast<unsigned>(
        cuda::history_blocks(kSequences * c.rows, c.heads, c.width, static_cast<int>(sizeof(T))));
  }

  // Prompt i is that of sequence i.
  void append(const std::vector<int>& sequences, const std::vector<int>& ends) {
    const T* x = tokens_.data();
    const int *at_sequences = sequences.data(), *at_ends = ends.data();
    T* history = history_.data();
    kernels_.launch_both_orders("append", grid(), addresses(x, at_sequences, at_ends, history),
                                std::vector{bytes_of(history_)});
  }

  void expect_window(const std::vector<int>& positions) {
    std::vector<T> newest, window(history_.size(), from_float<T>(-1));
    for (int s = 0; s < kSequences; ++s) {
      for (int i = 0; i < c_.row(); ++i) newest.push_back(from_float<T>(token(s, positions[size(s)], i)));
    }
    const T* x = newest.data();
    const int* at_positions = positions.data();
    T *history = history_.data(), *to = window.data();
    kernels_.launch_both_orders("window", grid(), addresses(x, at_positions, history, to),
                                std::vector{bytes_of(history_), bytes_of(window)});
    for (int at = 0; at < static_cast<int>(window.size()); ++at) {
      const int s = at / c_.row() / c_.rows, age = c_.rows - 1 - at / c_.row() % c_.rows;
      ASSERT_EQ(to_float(window[size(at)]), token(s, positions[size(s)] - age, at % c_.row()))
          << c_.rows << " rows, sequence " << s << ", " << age << " tokens before " << positions[size(s)];
    }
  }

 private:
  static size_t size(int n) { return static_cast<size_t>(n); }
  float token(int sequence, int t, int i) const {
    return t < 0 ? 0 : to_float(tokens_[size((sequence * kTokens + t) * c_.row() + i)]);
  }
  Geometry grid() const { return {{blocks_, 1, 1}, {cuda::kHistoryThreads, 1, 1}}; }

  HistoryCase c_;
  EmulatedKernels kernels_;
  std::vector<T> tokens_, history_;
  unsigned blocks_ = 0;
};

template <typename T>
void check(const HistoryCase& c) {
  History<T> history(c);
  history.append({0, 1, -1}, {5, 1, 3});
  history.expect_window({6, 2, 0});
  history.expect_window({7, 3, 1});
  history.expect_window({7, 3, 1});  // again
  history.expect_window({8, 4, 2});
  history.append({-1, -1, 2}, {0, 0, 0});  // another text in the third
  history.expect_window({8, 5, 1});
}

TEST(RowHistory, WindowsAreTheLastRows) {
  for (const HistoryCase& c :
       {HistoryCase{2, 4, 16}, HistoryCase{4, 1, 96}, HistoryCase{3, 3, 20}, HistoryCase{2, 1, 7}}) {
    check<float>(c);
    check<bf16>(c);
  }
}

}  // namespace
}  // namespace hydrac::emulation
