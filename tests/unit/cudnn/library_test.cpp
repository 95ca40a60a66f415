// Finding the library and what it says when it cannot do something, with stand-ins for it.
#include "runtime/cudnn/library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/cudnn/graph.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime::cudnn {
namespace {

using test::message_of;

void use_fake(const std::string& folder) {
  setenv("HYDRAC_CUDA_LIBRARIES", (std::string(FAKE_CUDNN_FOLDER "/") + folder).c_str(), 1);
}

const std::string kInstall =
    "\nInstall cuDNN 9.10.2 or newer (packages libcudnn9-cuda-13 or libcudnn9-cuda-12 of NVIDIA's "
    "repository). If it "
    "lies elsewhere (inside Python packages, for example), name its folder in $HYDRAC_CUDA_LIBRARIES.";

TEST(CudnnLibrary, IsFoundInTheFolderThatTheUserNames) {
  use_fake("v9_14");
  EXPECT_EQ(Library().name(), "cuDNN 9.14.0");
  use_fake("v9_19");
  EXPECT_EQ(Library().version(), 91900);
}

TEST(CudnnLibrary, AVersionWithWrongAttentionIsRefused) {
  use_fake("v9_10");
  EXPECT_EQ(message_of<InputError>([] { Library library; }),
            "the libcudnn.so.9 here is cuDNN 9.10.0, of which attention can make no use." + kInstall);
}

TEST(CudnnLibrary, AFileWithoutItsFunctionsIsRefused) {
  use_fake("incomplete");
  EXPECT_EQ(message_of<InputError>([] { Library library; }),
            "libcudnn.so.9 has no function cudnnGetErrorString." + kInstall);
}

TEST(CudnnLibrary, AFailureSaysWhatWasTriedAndWhatCudnnSays) {
  use_fake("v9_14");
  const Library library;
  EXPECT_EQ(message_of<RunError>([&] {
              Descriptor tensor(library, abi::DescriptorType::tensor);
              tensor.finalize("a tensor");
              tensor.set(abi::Attribute::tensor_unique_id, std::int64_t{7});
            }),
            "cuDNN 9.14.0 cannot set attribute 906: CUDNN_STATUS_BAD_PARAM (the descriptor is finalized)");
  EXPECT_EQ(message_of<UnsupportedError>([&] { library.check(abi::Status::not_supported, "do it"); }),
            "cuDNN 9.14.0 cannot do it: CUDNN_STATUS_NOT_SUPPORTED");
}

TEST(CudnnLibrary, VersionsReadAsPeopleWriteThem) {
  EXPECT_EQ(version_text(91400), "9.14.0");
  EXPECT_EQ(version_text(91002), "9.10.2");
}

TEST(CudnnGraph, DenseStridesCountTheElementsBehind) {
  EXPECT_EQ(dense_strides({2, 3, 5, 7}), (Shape{105, 35, 7, 1}));
}

}  // namespace
}  // namespace hydrac::runtime::cudnn
