// The CUDA libraries, opened at run time: nothing of CUDA is needed to build or to start a program. Each
// table is opened by the first call that needs it and stays until the process ends.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/abi/cublaslt.h"
#include "runtime/cuda/abi/driver.h"
#include "runtime/cuda/abi/nccl.h"
#include "runtime/cuda/abi/nvml.h"

namespace hydrac::runtime::cuda {

// The tables of functions. InputError that says what to install if the library is missing or too old.
// driver() has run cuInit.
const abi::DriverApi& driver();
const abi::CublasLtApi& cublaslt();
const abi::NvmlApi& nvml();
const abi::NcclApi& nccl();

// How one library is looked for.
struct LibraryQuery {
  std::string what;                // "cuBLASLt, CUDA's library of matmuls,"
  std::vector<std::string> files;  // in order of preference: "libcublasLt.so.13", "libcublasLt.so.12"
  std::string install;             // the last line of the message: what to do when there is none
};

// Existing folders that are searched in addition to the loader's own path, in order. First come the folders
// of $HYDRAC_CUDA_LIBRARIES (a colon list; the way to use the libraries inside Python packages), then those
// of $CUDA_HOME and $CUDA_PATH, then /usr/local/cuda and every /usr/local/cuda-*, newest first.
std::vector<std::filesystem::path> library_folders();

// Opens the first file found: in $HYDRAC_CUDA_LIBRARIES' folders, then on the loader's path, then in the
// other folders. InputError with the loader's words for each file that exists but does not load.
void* open_library(const LibraryQuery& query);

// A library of the CUDA toolkit: the newest that the driver supports, or any without a driver. `package`: the
// prefix of NVIDIA's package names, "libcublas".
LibraryQuery toolkit_query(std::string_view what, std::string_view stem, std::string_view package);

// A function of an opened library. Throws InputError when the library is too old to have it.
void* function_of(void* library, const LibraryQuery& query, const char* name);

// The names "libX.so.13", "libX.so.12" of versions that a driver for CUDA `driver_version` (13000 is 13.0; 0:
// no driver) supports.
std::vector<std::string> toolkit_files(std::string_view stem, int driver_version);

// Throws RunError "CALL: CUDA_ERROR_NAME (what it means)" unless it is success.
void check(abi::CUresult result, std::string_view call);

}  // namespace hydrac::runtime::cuda
