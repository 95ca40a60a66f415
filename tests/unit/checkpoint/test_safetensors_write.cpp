#include <gtest/gtest.h>

#include <array>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "tests/unit/checkpoint/fixtures.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::slurp;
using test::TempDir;
using Dtype = SafetensorsDtype;

std::string written(std::vector<TensorToWrite> tensors,
                    const SafetensorsMetadata& metadata = {{"format", "pt"}}) {
  const TempDir dir;
  FileWriter file(dir / "m.safetensors");
  write_safetensors(file, std::move(tensors), metadata);
  file.close_durably();
  return slurp(dir / "m.safetensors");
}

TEST(SafetensorsWrite, EqualsThePythonPackageByteForByte) {
  const std::array<float, 6> wte{-1.5F, -0.5F, 0.5F, 1.5F, 2.5F, 3.5F};
  const std::array<float, 3> bias{1, -2, 65504};
  const int64_t a = 7;
  const std::array<uint8_t, 3> b{1, 2, 3};
  const double d = 0.1;
  const std::array<int32_t, 2> i32{-1, 2};
  const std::array<uint8_t, 2> flag{1, 0};
  std::byte half_bias[6];
  encode_floats(bias, Dtype::f16, half_bias);
  EXPECT_EQ(written({
                raw_tensor_to_write("wte.weight", Dtype::f32, {2, 3}, wte.data()),
                raw_tensor_to_write("h.0.bias", Dtype::f16, {3}, half_bias),
                raw_tensor_to_write("a", Dtype::i64, {}, &a),
                raw_tensor_to_write("b\"\\\u00e9\n\x01", Dtype::u8, {3}, b.data()),
                raw_tensor_to_write("empty", Dtype::f32, {0, 4}, nullptr),
                raw_tensor_to_write("d", Dtype::f64, {1}, &d),
                raw_tensor_to_write("i32", Dtype::i32, {1, 2}, i32.data()),
                raw_tensor_to_write("flag", Dtype::boolean, {2}, flag.data()),
            }),
            slurp(fixture("python_package.safetensors")));
}

TEST(SafetensorsWrite, EveryDtypeStandsWhereThePythonPackagePutsIt) {
  std::array<uint8_t, 16> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  std::vector<TensorToWrite> tensors;
  for (int i = 0; i <= static_cast<int>(Dtype::u64); ++i) {
    tensors.push_back(raw_tensor_to_write((i < 10 ? "t0" : "t") + std::to_string(i), static_cast<Dtype>(i),
                                          {2}, bytes.data()));
  }
  EXPECT_EQ(written(std::move(tensors), {}), slurp(fixture("python_dtypes.safetensors")));
}

TEST(SafetensorsWrite, NoTensorsAtAll) {
  EXPECT_EQ(written({}, {}), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsWrite, StreamsInAnyPieces) {
  TensorToWrite tensor{"x", Dtype::u8, {5}, [](FileWriter& file) {
                         file.write("ab");
                         file.write("");
                         file.write("cde");
                       }};
  EXPECT_TRUE(written({tensor}).ends_with("}abcde") || written({tensor}).ends_with(" abcde"));
}

TEST(SafetensorsWrite, OurOwnMistakesAreLogicErrors) {
  const TensorToWrite tensor{"x", Dtype::f32, {2}, [](FileWriter& file) { file.write("abcd"); }};
  EXPECT_EQ(message_of<std::logic_error>([&] { written({tensor}); }), "tensor x wrote 4 bytes instead of 8");
  EXPECT_EQ(message_of<std::logic_error>([&] { written({tensor, tensor}); }), "two tensors are called x");
  EXPECT_EQ(message_of<std::logic_error>([&] {
              written({{"x", Dtype::f32, {2, -1}, {}}});
            }),
            "tensor x has the shape [2, -1]");
}

TEST(SafetensorsWrite, FullDiskIsARunErrorWithPathAndReason) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "SKIPPED: there is no /dev/full here";
  const std::vector<float> values(1 << 20);
  FileWriter file("/dev/full");
  EXPECT_EQ(message_of<RunError>([&] {
              write_safetensors(file, {raw_tensor_to_write("x", Dtype::f32, {1 << 20}, values.data())});
              file.close_durably();
            }),
            "cannot write /dev/full: No space left on device; free some space or set output.dir to a folder "
            "on another disk");
}

}  // namespace
}  // namespace hydrac::runtime
