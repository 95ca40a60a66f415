// A fuzz target's corpus as tests, without libFuzzer: every committed input is one test, named after its
// file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

// Passes when the target returns: what it objects to, it aborts on.
class Replay : public testing::Test {
 public:
  explicit Replay(fs::path file) : file_(std::move(file)) {}

  void TestBody() override {
    std::ifstream in(file_, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    ASSERT_TRUE(in.good() || in.eof()) << "cannot read " << file_;
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 0);
  }

 private:
  fs::path file_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(HYDRAC_FUZZ_CORPUS))
    files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    testing::RegisterTest("Replay", file.filename().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [file]() -> testing::Test* { return new Replay(file); });
  }
  return RUN_ALL_TESTS();
}
