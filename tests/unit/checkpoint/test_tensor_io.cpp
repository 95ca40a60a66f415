#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "runtime/checkpoint/float_formats.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::TempDir;
using Dtype = SafetensorsDtype;

class TensorIo : public ::testing::Test {
 protected:
  std::filesystem::path write(std::vector<TensorToWrite> tensors) {
    FileWriter file(dir_ / "m.safetensors");
    write_safetensors(file, std::move(tensors));
    file.close_durably();
    return dir_ / "m.safetensors";
  }

  template <typename Number>
  static std::vector<Number> stored(const SafetensorsReader& file, const char* name) {
    const auto bytes = file.bytes(file.at(name));
    std::vector<Number> numbers(bytes.size() / sizeof(Number));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }

  TempDir dir_;
};

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST_F(TensorIo, RowRangesOfAPackedArray) {
  const std::vector<float> qkv = counting(6 * 2);  // q: rows 0..2, k: 3..4, v: 5
  const SafetensorsReader file(
      write({tensor_to_write({"q", {3, 2}, qkv.data()}), tensor_to_write({"k", {2, 2}, qkv.data() + 6}),
             tensor_to_write({"v", {1, 2}, qkv.data() + 10})}));
  EXPECT_EQ(stored<float>(file, "k"), (std::vector<float>{7, 8, 9, 10}));
  std::vector<float> back(12, -1);
  read_tensor(file, {"v", {1, 2}, back.data() + 10});
  read_tensor(file, {"q", {3, 2}, back.data()});
  EXPECT_EQ(back, (std::vector<float>{1, 2, 3, 4, 5, 6, -1, -1, -1, -1, 11, 12}));
}

TEST_F(TensorIo, TransposedAsConv1D) {
  const std::vector<float> w = counting(6);  // memory: [out 2, in 3]
  const SafetensorsReader file(write({tensor_to_write({"c_attn.weight", {3, 2}, w.data(), 0, true})}));
  EXPECT_EQ(stored<float>(file, "c_attn.weight"), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  std::vector<float> back(6);
  read_tensor(file, {"c_attn.weight", {3, 2}, back.data(), 0, true});
  EXPECT_EQ(back, w);
}

TEST_F(TensorIo, ColumnRangeThroughTheRowStride) {
  const std::vector<float> packed = counting(8);  // [2, 4]; columns 1 and 2
  const SafetensorsReader file(write({tensor_to_write({"x", {2, 2}, packed.data() + 1, 4}),
                                      tensor_to_write({"t", {2, 2}, packed.data() + 1, 4, true})}));
  EXPECT_EQ(stored<float>(file, "x"), (std::vector<float>{2, 3, 6, 7}));
  EXPECT_EQ(stored<float>(file, "t"), (std::vector<float>{2, 6, 3, 7}));
  std::vector<float> back(8, 0);
  read_tensor(file, {"x", {2, 2}, back.data() + 1, 4});
  EXPECT_EQ(back, (std::vector<float>{0, 2, 3, 0, 0, 6, 7, 0}));
  read_tensor(file, {"t", {2, 2}, back.data(), 4, true});
  EXPECT_EQ(back, (std::vector<float>{2, 3, 3, 0, 6, 7, 7, 0}));
}

// Larger than a piece in both directions, so that blocks and their remainders are met.
TEST_F(TensorIo, LargeMatricesInEveryLayoutAndFormat) {
  const int64_t rows = 300, columns = 701, stride = 750;
  std::vector<float> memory(static_cast<size_t>(rows * stride));
  for (size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<float>(i % 251) - 125;  // exact in every format
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    for (const bool transpose : {false, true}) {
      const std::vector<int64_t> shape = transpose ? std::vector{columns, rows} : std::vector{rows, columns};
      const SafetensorsReader file(
          write({tensor_to_write({"x", shape, memory.data(), stride, transpose, dtype})}));
      std::vector<float> back(memory.size(), -1000);
      read_tensor(file, {"x", shape, back.data(), stride, transpose});
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < stride; ++column) {
          const auto at = static_cast<size_t>(row * stride + column);
          ASSERT_EQ(back[at], column < columns ? memory[at] : -1000)
              << dtype_name(dtype) << transpose << row << " " << column;
        }
      }
    }
  }
}

TEST_F(TensorIo, OneLongRowIsWrittenInPieces) {
  const std::vector<float> values = counting(200'001);
  const SafetensorsReader file(
      write({tensor_to_write({"x", {200'001}, values.data()}),
             tensor_to_write({"y", {200'001}, values.data(), 0, false, Dtype::f64})}));
  EXPECT_EQ(stored<float>(file, "x"), values);
  std::vector<float> back(values.size());
  read_tensor(file, {"y", {200'001}, back.data()});
  EXPECT_EQ(back, values);
}

TEST_F(TensorIo, ScalarsAndEmptyTensors) {
  const float seven = 7;
  const SafetensorsReader file(write(
      {tensor_to_write({"s", {}, &seven}), tensor_to_write({"e", {3, 0}, nullptr}),
       tensor_to_write({"t", {3, 0}, nullptr, 0, true}), tensor_to_write({"u", {0, 3}, nullptr, 0, true})}));
  float back = 0;
  read_tensor(file, {"s", {}, &back});
  EXPECT_EQ(back, 7);
  read_tensor(file, {"e", {3, 0}, nullptr});
  read_tensor(file, {"u", {0, 3}, nullptr, 0, true});
}

TEST_F(TensorIo, RawTensorsRoundTrip) {
  const std::vector<int64_t> counts{1, -2, INT64_MAX};
  const SafetensorsReader file(write({raw_tensor_to_write("n", Dtype::i64, {3}, counts.data())}));
  std::vector<int64_t> back(3);
  read_raw_tensor(file, "n", Dtype::i64, {3}, back.data());
  EXPECT_EQ(back, counts);
  const std::string path = (dir_ / "m.safetensors").string();
  EXPECT_EQ(message_of<InputError>([&] { read_raw_tensor(file, "n", Dtype::u64, {3}, back.data()); }),
            path + ": tensor \"n\" is I64, not U64");
}

TEST_F(TensorIo, MismatchesNameFileAndTensor) {
  const std::vector<int32_t> values{1, 2};
  const SafetensorsReader file(write({raw_tensor_to_write("n", Dtype::i32, {2}, values.data())}));
  const std::string path = (dir_ / "m.safetensors").string();
  float to[4];
  EXPECT_EQ(message_of<InputError>([&] {
              read_tensor(file, {"n", {2, 2}, to});
            }),
            path + ": tensor \"n\" has the shape [2], the model needs [2, 2]");
  EXPECT_EQ(message_of<InputError>([&] {
              read_tensor(file, {"n", {2}, to});
            }),
            path + ": tensor \"n\" is I32, the model needs F32, F64, BF16 or F16");
  EXPECT_EQ(message_of<InputError>([&] {
              read_tensor(file, {"m", {2}, to});
            }),
            path + ": has no tensor \"m\"; it belongs to another model");
}

TEST_F(TensorIo, OurOwnMistakesAreLogicErrors) {
  const float x[4]{};
  EXPECT_EQ(message_of<std::logic_error>([&] {
              tensor_to_write({"x", {2}, x, 0, false, Dtype::i8});
            }),
            "tensor x: not a floating-point dtype");
  EXPECT_EQ(message_of<std::logic_error>([&] {
              write({tensor_to_write({"x", {4}, x, 0, true})});
            }),
            "tensor x: only a matrix can be transposed");
  EXPECT_EQ(message_of<std::logic_error>([&] {
              write({tensor_to_write({"x", {2, 2}, x, 1})});
            }),
            "tensor x: its rows overlap in memory");
}

// The formats' values by definition, in double.
double f16_value(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(FloatFormats, EveryHalfComesBackAndHasItsValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_f32(half);
    if ((bits & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(value), (bits & 0x3ff) != 0);
      EXPECT_EQ(f32_to_f16(value), std::isnan(value) ? half | 0x200 : half);
      continue;
    }
    ASSERT_EQ(value, f16_value(half)) << bits;
    ASSERT_EQ(f32_to_f16(value), half) << bits;
  }
}

// Between each two neighbours: the middle goes to the even one, what is beside it to the nearer one.
TEST(FloatFormats, HalvesRoundToNearestEven) {
  for (uint16_t low = 0; low < 0x7bff; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const auto middle = static_cast<float>((f16_value(low) + f16_value(high)) / 2);
    ASSERT_EQ(f32_to_f16(middle), low % 2 == 0 ? low : high) << low;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0F)), low) << low;
    ASSERT_EQ(f32_to_f16(-std::nextafter(middle, 1e9F)), high | 0x8000) << low;
  }
  EXPECT_EQ(f32_to_f16(65519.996F), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(-INFINITY), 0xfc00);
  EXPECT_EQ(f32_to_f16(1e-30F), 0);
}

TEST(FloatFormats, Bf16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1.00390625F), 0x3f80);  // middle of 3f80 and 3f81
  EXPECT_EQ(f32_to_bf16(1.01171875F), 0x3f82);  // middle of 3f81 and 3f82
  EXPECT_EQ(f32_to_bf16(1.00390637F), 0x3f81);  // just above the middle
  EXPECT_EQ(f32_to_bf16(-0.0F), 0x8000);
  EXPECT_EQ(f32_to_bf16(3.4e38F), 0x7f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f800001)), 0x7fc0);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_f32(static_cast<uint16_t>(bits));
    ASSERT_EQ(f32_to_bf16(value), std::isnan(value) ? bits | 0x40 : bits);
  }
}

}  // namespace
}  // namespace hydrac::runtime
