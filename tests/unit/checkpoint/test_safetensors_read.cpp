#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/error.h"
#include "tests/unit/checkpoint/fixtures.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::TempDir;

std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, 'x');
}

// What reading such a file says.
std::string reading(const std::string& file) {
  return message_of<InputError>([&] { SafetensorsReader reader(bytes_of(file), "m.safetensors"); });
}

std::string reading(const std::string& header, size_t data_bytes) {
  return reading(file_of(header, data_bytes));
}

const std::string damaged = "; the file is damaged or is no safetensors file";

template <typename Number>
Number first_number(const SafetensorsReader& reader, const char* name) {
  Number number;
  std::memcpy(&number, reader.bytes(reader.at(name)).data(), sizeof number);
  return number;
}

TEST(SafetensorsRead, FileOfThePythonPackage) {
  const SafetensorsReader reader(fixture("python_package.safetensors"));
  ASSERT_EQ(reader.tensors().size(), 8U);
  EXPECT_EQ(reader.metadata(), (SafetensorsMetadata{{"format", "pt"}}));
  EXPECT_EQ(reader.at("wte.weight").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(reader.at("wte.weight").dtype, SafetensorsDtype::f32);
  EXPECT_EQ(first_number<float>(reader, "wte.weight"), -1.5F);
  EXPECT_EQ(first_number<int64_t>(reader, "a"), 7);
  EXPECT_EQ(first_number<double>(reader, "d"), 0.1);
  EXPECT_EQ(first_number<int32_t>(reader, "i32"), -1);
  EXPECT_EQ(first_number<uint16_t>(reader, "h.0.bias"), 0x3c00);
  EXPECT_EQ(reader.bytes(reader.at("b\"\\\u00e9\n\x01")).size(), 3U);
  EXPECT_EQ(reader.bytes(reader.at("empty")).size(), 0U);
  EXPECT_EQ(reader.at("a").elements(), 1);
  EXPECT_EQ(reader.find("nothing"), nullptr);
}

TEST(SafetensorsRead, TensorsComeSortedByName) {
  const SafetensorsReader reader(fixture("python_dtypes.safetensors"));
  ASSERT_EQ(reader.tensors().size(), 16U);
  EXPECT_EQ(reader.tensors().front().name, "t00");
  EXPECT_EQ(reader.tensors().back().name, "t15");
  EXPECT_TRUE(reader.metadata().empty());
}

TEST(SafetensorsRead, MissingTensorNamesFileAndTensor) {
  const std::string file = file_of("{}", 0);
  const SafetensorsReader reader(bytes_of(file), "m.safetensors");
  EXPECT_EQ(message_of<InputError>([&] { reader.at("h.\x1b[31m"); }),
            "m.safetensors: has no tensor \"h.\\u001b[31m\"; it belongs to another model");
}

TEST(SafetensorsRead, UnreadableFiles) {
  const TempDir dir;
  const std::string path = (dir / "m.safetensors").string();
  const auto open = [&] { SafetensorsReader reader{std::filesystem::path(path)}; };
  EXPECT_EQ(message_of<InputError>(open), "cannot read " + path + ": No such file or directory");
  test::spill(path, "");
  EXPECT_EQ(message_of<InputError>(open), path + ": has 0 bytes, too few for a safetensors file");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_EQ(message_of<InputError>(open), "cannot read " + path + ": it is a folder");
}

TEST(SafetensorsRead, HeaderLength) {
  EXPECT_EQ(reading(std::string("abc")), "m.safetensors: has 3 bytes, too few for a safetensors file");
  EXPECT_EQ(reading(std::string(8, '\xff')),
            "m.safetensors: a header of 18446744073709551615 bytes is longer than the format allows "
            "(100000000); this is no "
            "safetensors file");
  EXPECT_EQ(reading(file_of("{}", 0).substr(0, 9)),
            "m.safetensors: the header needs 2 bytes and the file has 1 left; it is truncated or no "
            "safetensors file");
}

TEST(SafetensorsRead, HeaderThatIsNoJson) {
  EXPECT_EQ(reading("", 0), "m.safetensors: the header does not begin with '{'" + damaged);
  EXPECT_EQ(reading("\xef\xbb\xbf{}", 0), "m.safetensors: the header does not begin with '{'" + damaged);
  EXPECT_EQ(reading("[]", 0), "m.safetensors: the header does not begin with '{'" + damaged);
  EXPECT_EQ(reading("{\"a\":", 0), "m.safetensors: the header is no valid JSON at its byte 6" + damaged);
  EXPECT_EQ(reading("{} x", 0), "m.safetensors: the header is no valid JSON at its byte 4" + damaged);
  EXPECT_EQ(reading("{\"\xff\":1}", 0), "m.safetensors: the header is no valid JSON at its byte 3" + damaged);
}

TEST(SafetensorsRead, HeaderOfAnotherStructure) {
  EXPECT_EQ(reading("{\"a\":1}", 0),
            "m.safetensors: tensor \"a\": the entry is a number, not an object" + damaged);
  EXPECT_EQ(reading("{\"a\":[]}", 0),
            "m.safetensors: tensor \"a\": the entry is an array, not an object" + damaged);
  EXPECT_EQ(reading("{\"a\":null}", 0),
            "m.safetensors: tensor \"a\": the entry is null, not an object" + damaged);
  EXPECT_EQ(reading("{\"a\":{\"dtype\":{}}}", 0),
            "m.safetensors: tensor \"a\": dtype has an object where none may stand" + damaged);
  EXPECT_EQ(reading("{\"a\":{\"dtype\":7}}", 0),
            "m.safetensors: tensor \"a\": dtype has a number where none may stand" + damaged);
  EXPECT_EQ(reading("{\"a\":{\"shape\":true}}", 0),
            "m.safetensors: tensor \"a\": shape has a boolean where none may stand" + damaged);
  EXPECT_EQ(reading("{\"a\":{\"shape\":3}}", 0),
            "m.safetensors: tensor \"a\": shape has a number where none may stand" + damaged);
  EXPECT_EQ(reading("{\"a\":{\"shape\":[\"3\"]}}", 0),
            "m.safetensors: tensor \"a\": shape has a string where none may stand" + damaged);
  EXPECT_EQ(reading("{\"a\":{\"shape\":[[3]]}}", 0),
            "m.safetensors: tensor \"a\": shape has an array where none may stand" + damaged);
  EXPECT_EQ(reading("{\"a\":{\"shape\":[{}]}}", 0),
            "m.safetensors: tensor \"a\": shape has an object where none may stand" + damaged);
  EXPECT_EQ(reading("{\"a\":{\"color\":1}}", 0),
            "m.safetensors: tensor \"a\": unknown field \"color\"" + damaged);
  EXPECT_EQ(reading("{\"__metadata__\":{\"k\":1}}", 0),
            "m.safetensors: __metadata__ \"k\" is a number, not a string" + damaged);
  EXPECT_EQ(reading("{\"__metadata__\":{\"k\":{}}}", 0),
            "m.safetensors: __metadata__ \"k\" is an object, not a string" + damaged);
}

TEST(SafetensorsRead, DeepNestingIsRefusedAtOnce) {
  EXPECT_EQ(reading("{\"a\":" + std::string(10'000'000, '['), 0),
            "m.safetensors: tensor \"a\": the entry is an array, not an object" + damaged);
}

TEST(SafetensorsRead, FieldsMissingOrTwice) {
  EXPECT_EQ(reading("{\"a\":{}}", 0), "m.safetensors: tensor \"a\": field \"dtype\" is missing" + damaged);
  EXPECT_EQ(reading("{\"a\":{\"dtype\":\"F32\"}}", 0),
            "m.safetensors: tensor \"a\": field \"shape\" is missing" + damaged);
  EXPECT_EQ(reading(R"({"a":{"dtype":"F32","shape":[]}})", 0),
            "m.safetensors: tensor \"a\": field \"data_offsets\" is missing" + damaged);
  EXPECT_EQ(reading(R"({"a":{"dtype":"F32","dtype":"F32"}})", 0),
            "m.safetensors: tensor \"a\": field \"dtype\" is given twice" + damaged);
  EXPECT_EQ(reading(R"({"a":{"dtype":"F99","shape":[],"data_offsets":[0,4]}})", 4),
            "m.safetensors: tensor \"a\": unknown dtype \"F99\"" + damaged);
  EXPECT_EQ(reading(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0]}})", 4),
            "m.safetensors: tensor \"a\": data_offsets has 1 numbers instead of 2" + damaged);
}

TEST(SafetensorsRead, DuplicateNames) {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(reading("{\"a\":" + entry + ",\"a\":" + entry + "}", 0),
            "m.safetensors: two entries are called \"a\"" + damaged);
  EXPECT_EQ(reading(R"({"__metadata__":{},"__metadata__":{}})", 0),
            "m.safetensors: two entries are called \"__metadata__\"" + damaged);
  EXPECT_EQ(reading(R"({"__metadata__":{"k":"1","k":"2"}})", 0),
            "m.safetensors: __metadata__ has \"k\" twice" + damaged);
}

TEST(SafetensorsRead, NumbersThatAreNoSizes) {
  const auto with_shape = [](const std::string& shape) {
    return reading(R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,4]}})", 4);
  };
  EXPECT_EQ(with_shape("[-1]"), "m.safetensors: tensor \"a\": shape has the negative number -1" + damaged);
  EXPECT_EQ(with_shape("[1.5]"),
            "m.safetensors: tensor \"a\": shape has \"1.5\", which is no whole number of 64 bits" + damaged);
  EXPECT_EQ(
      with_shape("[99999999999999999999]"),
      "m.safetensors: tensor \"a\": shape has \"99999999999999999999\", which is no whole number of 64 bits" +
          damaged);
  EXPECT_EQ(with_shape("[9223372036854775808]"),
            "m.safetensors: tensor \"a\": dimension 9223372036854775808 is too large" + damaged);
}

TEST(SafetensorsRead, ShapesThatOverflow) {
  EXPECT_EQ(reading(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
            "m.safetensors: tensor \"a\": shape [4294967296, 4294967296] is too large" + damaged);
  EXPECT_EQ(reading(R"({"a":{"dtype":"U8","shape":[4611686018427387904,4,0],"data_offsets":[0,0]}})", 0),
            "m.safetensors: tensor \"a\": shape [4611686018427387904, 4, 0] is too large" + damaged);
}

TEST(SafetensorsRead, RangesThatDoNotFit) {
  const auto one = [](const std::string& offsets, size_t bytes) {
    return reading(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":)" + offsets + "}}", bytes);
  };
  EXPECT_EQ(one("[0,24]", 24), "no exception");
  EXPECT_EQ(
      one("[0,20]", 20),
      "m.safetensors: tensor \"a\": shape [2, 3] of F32 takes 24 bytes, data_offsets give 20" + damaged);
  EXPECT_EQ(one("[0,24]", 23),
            "m.safetensors: tensor \"a\": ends at byte 24 of the data, of which there are 23" + damaged);
  EXPECT_EQ(one("[24,0]", 24),
            "m.safetensors: tensor \"a\": data_offsets end at 0 before they begin at 24" + damaged);
  EXPECT_EQ(one("[0,24]", 30), "m.safetensors: 6 bytes at the end belong to no tensor" + damaged);
  EXPECT_EQ(one("[18446744073709551600,24]", 24),
            "m.safetensors: tensor \"a\": data_offsets end at 24 before they begin at 18446744073709551600" +
                damaged);
}

TEST(SafetensorsRead, GapsAndOverlaps) {
  const auto two = [](const std::string& b) {
    return reading(R"({"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b +
                       R"(},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                   9);
  };
  EXPECT_EQ(two("[5,9]"),
            "m.safetensors: tensor \"b\": begins at byte 5 of the data, but what stands before it ends at "
            "byte 4 (a gap)" +
                damaged);
  EXPECT_EQ(two("[3,7]"),
            "m.safetensors: tensor \"b\": begins at byte 3 of the data, but what stands before it ends at "
            "byte 4 (an overlap)" +
                damaged);
  EXPECT_EQ(two("[0,4]"),
            "m.safetensors: tensor \"b\": begins at byte 0 of the data, but what stands before it ends at "
            "byte 4 (an overlap)" +
                damaged);
}

// A small stand-in for the fuzzer where there is none: whatever is done to a good file, it is read or refused
// cleanly.
TEST(SafetensorsRead, EveryTruncationAndManyMutationsAreReadOrRefused) {
  const std::string good = test::slurp(fixture("python_package.safetensors"));
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(reading(good.substr(0, size)), "no exception") << size;
  EXPECT_NE(reading(good + "x"), "no exception");
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string file = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n)
      file[random() % file.size()] = static_cast<char>(random());
    const std::string outcome = reading(file);
    if (outcome != "no exception") {
      EXPECT_TRUE(outcome.starts_with("m.safetensors: ")) << outcome;
      continue;
    }
    const SafetensorsReader reader(bytes_of(file), "m.safetensors");
    for (const TensorEntry& tensor : reader.tensors()) {
      EXPECT_EQ(reader.bytes(tensor).size(),
                static_cast<size_t>(tensor.elements() * dtype_bytes(tensor.dtype)));
    }
  }
}

}  // namespace
}  // namespace hydrac::runtime
