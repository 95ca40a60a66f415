// The version of cuBLASLt.
#pragma once
#include <string>

namespace hydrac::runtime::cuda {

// "cuBLASLt 13.1.0". Throws InputError that says what to install when it is not there.
std::string library_version();

}  // namespace hydrac::runtime::cuda
