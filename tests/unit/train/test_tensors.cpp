// A program's tensors of any element type, through a file and back.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/checkpoint/float_formats.h"
#include "runtime/train/program_tensors.h"
#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::spill;
using test::TempDir;

// A program that is nothing but its tensors.
class Tensors : public testing::Test {
 protected:
  template <typename T>
  NamedTensor tensor(const char* name, SafetensorsDtype dtype, std::vector<int64_t> shape,
                     std::vector<T>& elements, bool transposed = false) {
    return {name, std::move(shape), dtype, reinterpret_cast<uint64_t>(elements.data()), transposed};
  }

  void save(const std::vector<NamedTensor>& tensors) {
    FileWriter file(path_);
    write_tensors(file, program_, tensors);
    file.close_durably();
  }

  TempDir dir_;
  const std::filesystem::path path_ = dir_ / "tensors.safetensors";
  FakeProgram program_;
};

TEST_F(Tensors, OfEveryTypeComeBackBitForBit) {
  std::vector<uint16_t> half{1, 2, 0x7c00, 4, 5, 0xff7f}, half_back(6);
  std::vector<int8_t> bytes{-128, 0, 127}, bytes_back(3);
  std::vector<int32_t> count{-7}, count_back(1);
  std::vector<float> floats{1, 2, 3, 4, 5, 6}, floats_back(6);
  const auto list = [&](auto& h, auto& b, auto& c, auto& f) {
    return std::vector{tensor("half", SafetensorsDtype::bf16, {3, 2}, h, true),
                       tensor("bytes", SafetensorsDtype::i8, {3}, b),
                       tensor("count", SafetensorsDtype::i32, {}, c),
                       tensor("floats", SafetensorsDtype::f32, {2, 3}, f, true)};
  };
  save(list(half, bytes, count, floats));
  read_tensors(path_, program_, list(half_back, bytes_back, count_back, floats_back));
  EXPECT_EQ(half_back, half);
  EXPECT_EQ(bytes_back, bytes);
  EXPECT_EQ(count_back, count);
  EXPECT_EQ(floats_back, floats);
}

// What transformers wants to find, and what resuming must not stumble over.
TEST_F(Tensors, OfZerosAreWrittenForOthersAndAddNothing) {
  std::vector<float> matrix{1, 2, 3, 4}, back(4);
  const auto write = [&](const std::vector<ZeroTensor>& zeros, float bias) {
    std::vector<float> biases{0, bias};
    FileWriter file(path_);
    write_tensors(file, program_,
                  {tensor("matrix", SafetensorsDtype::f32, {2, 2}, matrix),
                   tensor("own.bias", SafetensorsDtype::f32, {2}, biases)},
                  {}, zeros);
    file.close_durably();
  };
  write({{"h.0.ln_1.bias", {3}}, {"transformer.wpe.weight", {2, 2}}}, 0);
  const SafetensorsReader reader(path_);
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  EXPECT_EQ(reader.at("h.0.ln_1.bias").shape, (std::vector<int64_t>{3}));
  EXPECT_EQ(reader.at("h.0.ln_1.bias").dtype, SafetensorsDtype::f32);
  read_tensors(path_, program_, {tensor("matrix", SafetensorsDtype::f32, {2, 2}, back)});
  EXPECT_EQ(back, matrix);
  write({}, 1e-30f);
  EXPECT_NE(message_of<InputError>([&] {
              read_tensors(path_, program_, {tensor("matrix", SafetensorsDtype::f32, {2, 2}, back)});
            }).find("the model has no tensor \"own.bias\""),
            std::string::npos);
  write({{"ln_1.weight", {2}}}, 0);  // a factor of 0 is no addition of 0
  EXPECT_NE(message_of<InputError>([&] {
              read_tensors(path_, program_, {tensor("matrix", SafetensorsDtype::f32, {2, 2}, back)});
            }).find("the model has no tensor \"ln_1.weight\""),
            std::string::npos);
}

TEST_F(Tensors, LieTransposedInTheFile) {
  std::vector<uint16_t> half{11, 12, 13, 21, 22, 23};  // memory: [2, 3]
  save({tensor("half", SafetensorsDtype::f16, {3, 2}, half, true)});
  const SafetensorsReader reader(path_);
  uint16_t stored[6];
  std::memcpy(stored, reader.bytes(reader.at("half")).data(), sizeof stored);
  EXPECT_EQ(std::vector<uint16_t>(stored, stored + 6), (std::vector<uint16_t>{11, 21, 12, 22, 13, 23}));
}

TEST_F(Tensors, LargerThanATileLieTransposedToo) {
  constexpr int64_t rows = 70, columns = 45;
  std::vector<float> memory(rows * columns), back(rows * columns);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  save({tensor("matrix", SafetensorsDtype::f32, {columns, rows}, memory, true)});
  read_tensors(path_, program_, {tensor("matrix", SafetensorsDtype::f32, {columns, rows}, back, true)});
  EXPECT_EQ(back, memory);
  read_tensors(path_, program_, {tensor("matrix", SafetensorsDtype::f32, {columns, rows}, back)});
  EXPECT_EQ(back[0 * rows + 7], memory[7 * columns + 0]);
  EXPECT_EQ(back[44 * rows + 69], memory[69 * columns + 44]);
}

TEST_F(Tensors, OfAnotherTypeAreAnErrorExceptFloatsForFloats) {
  std::vector<uint16_t> half{f32_to_bf16(1.5f)};
  std::vector<float> wide(1);
  std::vector<int32_t> count(1);
  save({tensor("x", SafetensorsDtype::bf16, {1}, half)});
  read_tensors(path_, program_, {tensor("x", SafetensorsDtype::f32, {1}, wide)});
  EXPECT_EQ(wide[0], 1.5f);
  wide[0] = 1 + 0x1.8p-8f;  // between two bf16 numbers, nearer to the upper one
  save({tensor("x", SafetensorsDtype::f32, {1}, wide)});
  read_tensors(path_, program_, {tensor("x", SafetensorsDtype::bf16, {1}, half)});
  EXPECT_EQ(half[0], f32_to_bf16(1 + 0x1p-7f));
  save({tensor("x", SafetensorsDtype::bf16, {1}, half)});
  EXPECT_EQ(message_of<InputError>(
                [&] { read_tensors(path_, program_, {tensor("x", SafetensorsDtype::i32, {1}, count)}); }),
            path_.string() + ": tensor \"x\" is BF16, not I32");
}

TEST_F(Tensors, OnlyMatricesCanBeTransposed) {
  std::vector<float> vector(3);
  EXPECT_EQ(
      message_of<std::logic_error>([&] { save({tensor("v", SafetensorsDtype::f32, {3}, vector, true)}); }),
      "tensor v: only a matrix can be transposed");
}

// In files from elsewhere, whatever the program's own type and layout.
TEST_F(Tensors, ThatAreNotFiniteAreAnErrorWithTheirPlace) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> back(6);
  std::vector<uint16_t> half_back(6);
  const auto refused = [&](SafetensorsDtype dtype, auto values, const std::string& why) {
    save({tensor("w", dtype, {2, 3}, values)});
    for (const bool transposed : {false, true}) {
      for (const NamedTensor& to : {tensor("w", SafetensorsDtype::f32, {2, 3}, back, transposed),
                                    tensor("w", SafetensorsDtype::bf16, {2, 3}, half_back, transposed)})
        EXPECT_EQ(
            message_of<InputError>([&] { read_tensors(path_, program_, {to}); }),
            path_.string() + ": tensor \"w\" is " + why + "; the file is damaged, or its training diverged");
    }
  };
  refused(SafetensorsDtype::f32, std::vector<float>{0, 1, 2, 3, NAN, inf}, "NaN at [1, 1]");
  refused(SafetensorsDtype::f32, std::vector<float>{0, 1, -inf, 3, 4, 5}, "infinite at [0, 2]");
  refused(SafetensorsDtype::bf16, std::vector<uint16_t>{0x7f81, 0, 0, 0, 0, 0}, "NaN at [0, 0]");
  refused(SafetensorsDtype::f16, std::vector<uint16_t>{0, 0, 0, 0, 0, 0xfc00}, "infinite at [1, 2]");
}

template <typename T>
std::optional<int64_t> first(SafetensorsDtype dtype, std::vector<T> values) {
  return first_non_finite(dtype, std::as_bytes(std::span(values)));
}

TEST(FirstNonFinite, KnowsEveryFloatingPointType) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(first<float>(SafetensorsDtype::f32, {0, -1e38f}), std::nullopt);
  EXPECT_EQ(first<float>(SafetensorsDtype::f32, {0, -inf}), 1);
  EXPECT_EQ(first<float>(SafetensorsDtype::f32, {NAN, 0}), 0);
  EXPECT_EQ(first<double>(SafetensorsDtype::f64, {1e300}), std::nullopt);
  EXPECT_EQ(first<double>(SafetensorsDtype::f64, {1, double{inf}}), 1);
  EXPECT_EQ(first<uint16_t>(SafetensorsDtype::f16, {0x7bff, 0xfbff}), std::nullopt);
  EXPECT_EQ(first<uint16_t>(SafetensorsDtype::f16, {0, 0x7c00}), 1);
  EXPECT_EQ(first<uint16_t>(SafetensorsDtype::bf16, {0x7c00, 0xff7f}), std::nullopt);
  EXPECT_EQ(first<uint16_t>(SafetensorsDtype::bf16, {0, 0xff80}), 1);
  EXPECT_EQ(first<int32_t>(SafetensorsDtype::i32, {0x7f800000}), std::nullopt);
  EXPECT_EQ(message_of<std::logic_error>([] { first<uint8_t>(SafetensorsDtype::f8_e4m3, {0}); }),
            "F8_E4M3 is no type of parameters");
}

}  // namespace
}  // namespace hydrac::runtime
