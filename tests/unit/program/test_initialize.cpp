// How a program's memory starts.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/checkpoint/float_formats.h"
#include "tests/unit/support/memory_program.h"

namespace hydrac::runtime {
namespace {

constexpr int64_t kElements = (1 << 20) + 6;  // more than is made at once

// A program that is nothing but one parameter, of the type that its start says.
class OneParameter final : public MemoryProgram {
 public:
  explicit OneParameter(SafetensorsDtype dtype) : MemoryProgram(layout_of(dtype), kElements * 4 + 8) {}

 private:
  static ProgramLayout layout_of(SafetensorsDtype dtype) {
    ProgramLayout layout;
    layout.state.rng_seed = {kElements * 4, 1};
    layout.seed = 7;
    layout.starts = {{{0, kElements}, ParameterStart::Kind::normal, 0.02, dtype}};
    return layout;
  }
};

TEST(Initialize, NarrowParametersStartWithTheRoundedNumbersOfWideOnes) {
  OneParameter wide(SafetensorsDtype::f32), narrow(SafetensorsDtype::bf16);
  wide.initialize();
  narrow.initialize();
  std::vector<float> floats(kElements);
  std::vector<uint16_t> halves(kElements);
  wide.copy_out(0, std::as_writable_bytes(std::span(floats)));
  narrow.copy_out(0, std::as_writable_bytes(std::span(halves)));
  for (size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(halves[i], f32_to_bf16(floats[i])) << i;
  EXPECT_NE(floats.front(), 0);
  EXPECT_NE(floats.back(), 0);
}

// Two tensors that lie one behind the other are the parameter's; with one of them alone it is drawn.
TEST(Initialize, DrawsNothingThatIsGivenWhole) {
  OneParameter drawn(SafetensorsDtype::bf16), given(SafetensorsDtype::bf16), partly(SafetensorsDtype::bf16);
  const NamedTensor first{.name = "first", .shape = {6}, .dtype = SafetensorsDtype::bf16, .address = 0},
      rest{.name = "rest", .shape = {1 << 20}, .dtype = SafetensorsDtype::bf16, .address = 12};
  drawn.initialize();
  given.start({rest, first});
  partly.start({rest});
  EXPECT_EQ(partly.memory, drawn.memory);
  const size_t end = kElements * 2;
  EXPECT_TRUE(std::all_of(given.memory.begin(), given.memory.begin() + end,
                          [](std::byte byte) { return byte == std::byte{0}; }));
  EXPECT_TRUE(std::equal(given.memory.begin() + end, given.memory.end(), drawn.memory.begin() + end));
}

}  // namespace
}  // namespace hydrac::runtime
