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

  TempDir dir_;
};

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST_F(TensorIo, TransposedAsConv1D) {
  const std::vector<float> stored = {1, 4, 2, 5, 3, 6};  // [in 3, out 2]
  const SafetensorsReader file(
      write({raw_tensor_to_write("c_attn.weight", Dtype::f32, {3, 2}, stored.data())}));
  std::vector<float> back(6);
  read_tensor(file, {"c_attn.weight", {3, 2}, back.data(), true});
  EXPECT_EQ(back, counting(6));
  read_tensor(file, {"c_attn.weight", {3, 2}, back.data()});
  EXPECT_EQ(back, stored);
}

// Larger than a piece in both directions, so that blocks and their remainders are met.
TEST_F(TensorIo, LargeMatricesInEveryFormat) {
  const int64_t rows = 300, columns = 701;
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 251) - 125;  // exact in every format
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    std::vector<std::byte> stored(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
    encode_floats(values, dtype, stored.data());
    const SafetensorsReader file(write({raw_tensor_to_write("x", dtype, {rows, columns}, stored.data())}));
    std::vector<float> back(values.size(), -1000);
    read_tensor(file, {"x", {rows, columns}, back.data()});
    EXPECT_TRUE(back == values) << dtype_name(dtype);
    read_tensor(file, {"x", {rows, columns}, back.data(), true});
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        ASSERT_EQ(back[static_cast<size_t>(column * rows + row)],
                  values[static_cast<size_t>(row * columns + column)])
            << dtype_name(dtype) << " " << row << " " << column;
      }
    }
  }
}

TEST_F(TensorIo, ScalarsAndEmptyTensors) {
  const float seven = 7;
  const SafetensorsReader file(write({raw_tensor_to_write("s", Dtype::f32, {}, &seven),
                                      raw_tensor_to_write("e", Dtype::f32, {3, 0}, nullptr),
                                      raw_tensor_to_write("u", Dtype::f32, {0, 3}, nullptr)}));
  float back = 0;
  read_tensor(file, {"s", {}, &back});
  EXPECT_EQ(back, 7);
  read_tensor(file, {"e", {3, 0}, nullptr});
  read_tensor(file, {"e", {3, 0}, nullptr, true});
  read_tensor(file, {"u", {0, 3}, nullptr, true});
}

TEST_F(TensorIo, RawTensorsRoundTrip) {
  const std::vector<int64_t> counts{1, -2, INT64_MAX};
  const SafetensorsReader file(write({raw_tensor_to_write("n", Dtype::i64, {3}, counts.data())}));
  const std::span<const std::byte> bytes = raw_tensor(file, "n", Dtype::i64, {3});
  std::vector<int64_t> back(3);
  ASSERT_EQ(bytes.size(), 3 * sizeof back[0]);
  std::memcpy(back.data(), bytes.data(), bytes.size());
  EXPECT_EQ(back, counts);
  const std::string path = (dir_ / "m.safetensors").string();
  EXPECT_EQ(message_of<InputError>([&] { raw_tensor(file, "n", Dtype::u64, {3}); }),
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

TEST_F(TensorIo, OnlyMatricesAreTransposed) {
  const float x[4]{};
  const SafetensorsReader file(write({raw_tensor_to_write("x", Dtype::f32, {4}, x)}));
  float to[4];
  EXPECT_EQ(message_of<std::logic_error>([&] {
              read_tensor(file, {"x", {4}, to, true});
            }),
            "tensor x: only a matrix can be transposed");
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
