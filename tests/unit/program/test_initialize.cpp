// How a program's memory starts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "runtime/checkpoint/float_formats.h"
#include "runtime/program/laid_out_program.h"

namespace hydrac::runtime {
namespace {

constexpr int64_t kElements = (1 << 20) + 6;  // more than is made at once

// A program that is nothing but one parameter, of the type that its start says.
class OneParameter final : public LaidOutProgram {
 public:
  explicit OneParameter(SafetensorsDtype dtype)
      : LaidOutProgram(layout_of(dtype)), memory(kElements * 4 + 8) {}

  std::string description() const override { return "memory"; }
  void copy_out(int64_t offset, std::span<std::byte> to) override {
    std::memcpy(to.data(), &memory[static_cast<size_t>(offset)], to.size());
  }
  void copy_in(int64_t offset, std::span<const std::byte> from) override {
    std::memcpy(&memory[static_cast<size_t>(offset)], from.data(), from.size());
  }
  void micro_step(const Batch&, float) override { throw std::logic_error("it cannot run"); }
  void update() override { throw std::logic_error("it cannot run"); }
  StepResult finish_step() override { throw std::logic_error("it cannot run"); }
  double evaluate(const Batch&) override { throw std::logic_error("it cannot run"); }
  std::span<const float> next_logits(std::span<const int32_t>, int64_t) override {
    throw std::logic_error("it cannot run");
  }

  std::vector<std::byte> memory;

 protected:
  void clear_persistent() override { std::ranges::fill(memory, std::byte{0}); }
  void run(Function) override { throw std::logic_error("it cannot run"); }
  void compute(Function, const Batch&) override { throw std::logic_error("it cannot run"); }
  void wait() const override {}
  LastRun last_run() const override { return {}; }

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
