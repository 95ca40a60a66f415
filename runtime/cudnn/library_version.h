// The version of cuDNN, which needs no GPU to be asked.
#pragma once
#include <string>

namespace hydrac::runtime::cudnn {

// "cuDNN 9.14.0". Throws InputError that says what to install when it is missing or too old.
std::string library_version();

}  // namespace hydrac::runtime::cudnn
