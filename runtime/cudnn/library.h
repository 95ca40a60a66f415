// cuDNN, opened at run time. Only runtime/cudnn uses this; the rest includes attention.h.
#pragma once
#include <string>

#include "runtime/cudnn/abi.h"
#include "runtime/cudnn/unsupported_error.h"

namespace hydrac::runtime::cudnn {

// The functions of cuDNN that this folder calls, and its errors.
class Library {
 public:
  // Opens libcudnn.so.9 from runtime/cuda's library folders; it stays open until the process ends. InputError
  // that says what to install if it is missing or too old.
  Library();

  // 91400 is 9.14.0.
  int version() const { return version_; }
  // "cuDNN 9.14.0"
  std::string name() const;

  // Throws unless `status` is success: UnsupportedError or RunError, with what was tried and cuDNN's words.
  void check(abi::Status status, const char* tried) const;

  abi::Create* create = nullptr;
  abi::Destroy* destroy = nullptr;
  abi::SetStream* set_stream = nullptr;
  abi::BackendCreateDescriptor* create_descriptor = nullptr;
  abi::BackendDestroyDescriptor* destroy_descriptor = nullptr;
  abi::BackendFinalize* finalize = nullptr;
  abi::BackendSetAttribute* set_attribute = nullptr;
  abi::BackendGetAttribute* get_attribute = nullptr;
  abi::BackendExecute* execute = nullptr;

 private:
  abi::GetErrorString* error_string_ = nullptr;
  abi::GetLastErrorString* last_error_string_ = nullptr;
  int version_ = 0;
};

// "9.14.0"
std::string version_text(int version);

// Versions before it compute wrong attention (9.10.0, 9.10.1) or want other graphs.
constexpr int kOldestVersion = 91002;

}  // namespace hydrac::runtime::cudnn
