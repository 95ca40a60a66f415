// Sums of what ranks have sent each other, on a real GPU, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "runtime/cuda/term_sums.h"
#include "tests/gpu/gpu_test.h"

namespace hydrac::runtime::cuda {
namespace {

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// To nearest, ties to even; of numbers that are no NaN.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

class GpuTermSums : public test::GpuTest {
 protected:
  // Elements are stored from byte `shift` of each buffer on.
  template <class Element, class Result>
  void expect_sums(int terms, std::int64_t count, std::int64_t shift, ElementType type, Reduction reduction,
                   const Result& result) {
    std::mt19937 random(static_cast<unsigned>(terms * 1000 + count));
    std::normal_distribution<float> normal(0, 3);
    const auto size = static_cast<std::size_t>(count),
               skipped = static_cast<std::size_t>(shift) / sizeof(Element);
    std::vector<std::vector<Element>> values(static_cast<std::size_t>(terms));
    std::vector<DeviceBuffer> buffers;
    std::vector<const std::byte*> places;
    for (std::vector<Element>& term : values) {
      term.resize(skipped + size);
      for (Element& value : term) {
        if constexpr (sizeof(Element) == 4)
          value = normal(random);
        else
          value = to_bf16(normal(random));
      }
      buffers.push_back(on_device(term));
      places.push_back(buffers.back().data() + shift);
    }
    // The first term is where the sum is written, as in all_reduce.
    const TermSums sums(terms);
    sums.enqueue(places, buffers[0].data() + shift, count, type, reduction, *stream);
    const std::vector<Element> found = on_host<Element>(buffers[0]);
    for (std::size_t i = 0; i < size; ++i) {
      std::vector<Element> each;
      for (const std::vector<Element>& term : values) each.push_back(term[skipped + i]);
      ASSERT_EQ(found[skipped + i], result(each)) << terms << " terms, element " << i << " of " << count;
    }
  }
};

TEST_F(GpuTermSums, AddInTheOrderOfTerms) {
  const auto sum = [](const std::vector<float>& terms) {
    float total = 0;
    for (const float term : terms) total += term;
    return total;
  };
  for (const int terms : {2, 3, 8})
    for (const std::int64_t count : {1, 3, 1024, 100'003})
      for (const std::int64_t shift : {0, 4})
        expect_sums<float>(terms, count, shift, ElementType::f32, Reduction::sum, sum);
}

TEST_F(GpuTermSums, Of16BitsAreRoundedOnce) {
  const auto sum = [](const std::vector<std::uint16_t>& terms) {
    float total = 0;
    for (const std::uint16_t term : terms) total += from_bf16(term);
    return to_bf16(total);
  };
  for (const int terms : {2, 5})
    for (const std::int64_t count : {1, 7, 8, 10'001})
      for (const std::int64_t shift : {0, 2})
        expect_sums<std::uint16_t>(terms, count, shift, ElementType::bf16, Reduction::sum, sum);
}

TEST_F(GpuTermSums, AddHalfPrecision) {
  // 1 + 2^-11 is halfway to the next number, and the even one is 1; twice as much is not.
  const std::vector<std::uint16_t> one(100, 0x3c00), small(100, 0x1000);
  for (const std::int64_t count : {100, 5}) {
    const DeviceBuffer a = on_device(one), b = on_device(small), c = on_device(small);
    const TermSums two(2), three(3);
    const std::byte* const all[] = {a.data(), b.data(), c.data()};
    const DeviceBuffer result = on_device(std::vector<std::uint16_t>(100));
    two.enqueue(std::span(all).first(2), result.data(), count, ElementType::f16, Reduction::sum, *stream);
    EXPECT_EQ(on_host<std::uint16_t>(result)[static_cast<std::size_t>(count) - 1], 0x3c00);
    three.enqueue(all, result.data(), count, ElementType::f16, Reduction::sum, *stream);
    EXPECT_EQ(on_host<std::uint16_t>(result)[static_cast<std::size_t>(count) - 1], 0x3c01);
  }
}

TEST_F(GpuTermSums, FindTheLargest) {
  const auto largest = [](const std::vector<float>& terms) { return *std::ranges::max_element(terms); };
  for (const std::int64_t count : {1, 1030})
    expect_sums<float>(4, count, 0, ElementType::f32, Reduction::max, largest);
}

}  // namespace
}  // namespace hydrac::runtime::cuda
