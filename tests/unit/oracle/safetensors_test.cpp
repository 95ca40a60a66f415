#include "oracle/job/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "job_folder.h"
#include "oracle/job/error.h"

namespace hydrac::oracle {
namespace {

class Safetensors : public ::testing::Test {
 protected:
  std::filesystem::path file() const { return folder.path() / "x.safetensors"; }

  void write_file(const std::string& header, const std::string& data, std::uint64_t stated) const {
    std::ofstream out(file(), std::ios::binary);
    out.write(reinterpret_cast<const char*>(&stated), sizeof stated);
    out << header << data;
  }

  // The message about a file with this header and data.
  std::string complaint(const std::string& header, const std::string& data = "") const {
    write_file(header, data, header.size());
    return complaint_about_file();
  }

  std::string complaint_about_file() const {
    try {
      const SafetensorsFile read(file());
    } catch (const JobError& e) {
      return e.what();
    }
    return "none";
  }

  JobFolder folder;
};

TEST_F(Safetensors, ReadsBackWhatItWrote) {
  const std::vector<double> matrix = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> ids = {-1, 7};
  const double scalar = 0.5;
  SafetensorsWriter writer;
  writer.add("z", {2, 3}, matrix.data());
  writer.add("ids", {2}, ids.data());
  writer.add("scalar", {}, &scalar);
  writer.write(file());

  const SafetensorsFile read(file());
  ASSERT_EQ(read.tensors().size(), 3u);
  const TensorView* z = read.find("z");
  EXPECT_EQ(z->dtype, "F64");
  EXPECT_EQ(z->shape, (Shape{2, 3}));
  ASSERT_EQ(z->bytes, 48u);
  EXPECT_EQ(std::memcmp(z->data, matrix.data(), 48), 0);
  EXPECT_EQ(read.find("ids")->dtype, "I32");
  EXPECT_EQ(std::memcmp(read.find("ids")->data, ids.data(), 8), 0);
  EXPECT_EQ(read.find("scalar")->shape, Shape{});
  EXPECT_EQ(read.find("nothing"), nullptr);
}

TEST_F(Safetensors, SkipsMetadata) {
  write_file(R"({"__metadata__":{"format":"pt"}})", "", 32);
  EXPECT_EQ(SafetensorsFile(file()).tensors().size(), 0u);
}

TEST_F(Safetensors, RefusesHostileFiles) {
  EXPECT_EQ(complaint_about_file(), "x.safetensors: cannot be opened");
  std::ofstream(file()) << "abc";
  EXPECT_EQ(complaint_about_file(), "x.safetensors: is too short for a safetensors header");
  write_file("{}", "", UINT64_MAX);
  EXPECT_EQ(complaint_about_file(),
            "x.safetensors: states a header of 18446744073709551615 bytes but holds 10 bytes in all");
  EXPECT_EQ(complaint("{\"a\":"), "x.safetensors: has a header that is no JSON object");
  EXPECT_EQ(complaint("[]"), "x.safetensors: has a header that is no JSON object");
  EXPECT_EQ(complaint(R"({"a":3})"), "x.safetensors: tensor \"a\" has no dtype");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"F8","shape":[],"data_offsets":[0,1]}})", "x"),
            "x.safetensors: tensor \"a\" has dtype \"F8\"; the oracle reads F64, F32, I64, I32 and U32");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"F32","shape":7,"data_offsets":[0,4]}})", "xxxx"),
            "x.safetensors: tensor \"a\" has a malformed shape or data_offsets");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "xxxx"),
            "x.safetensors: tensor \"a\": shape must hold integers >= 0");
  EXPECT_EQ(
      complaint(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", "xxxx"),
      "x.safetensors: tensor \"a\" has a shape too large to be true");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "xxxx"),
            "x.safetensors: tensor \"a\" lies outside the file");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "xxxxxxxx"),
            "x.safetensors: tensor \"a\" lies outside the file");
  EXPECT_EQ(complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "xxxx"),
            "x.safetensors: tensor \"a\" has 4 bytes of data; its shape needs 8");
}

TEST_F(Safetensors, SaysWhichFileCannotBeWritten) {
  const SafetensorsWriter writer;
  try {
    writer.write(folder.path() / "missing" / "y.safetensors");
    FAIL() << "wrote into a folder that does not exist";
  } catch (const JobError& e) {
    EXPECT_STREQ(e.what(), "y.safetensors: cannot be written");
  }
}

}  // namespace
}  // namespace hydrac::oracle
