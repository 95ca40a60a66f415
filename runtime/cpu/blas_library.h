// One library for matmuls, opened at run time. Only runtime/cpu uses this; the rest includes gemm.h.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/cpu/gemm.h"

namespace hydrac::runtime {

class BlasLibrary {
 public:
  virtual ~BlasLibrary() = default;

  // Like Blas::gemm, with sizes checked and strides filled in. Returns the library's status: 0 is success.
  virtual int gemm(const Gemm& matmul, const float* a, const float* b, float* c) = 0;

  // The word that BlasOptions::preference knows it by.
  virtual std::string word() const = 0;
  // Name and version, with what else decides its speed.
  virtual const std::string& name() const = 0;
  // Environment variables that make it slower than it could be, as notes for the user.
  virtual std::vector<std::string> warnings() const = 0;
};

// Opens the first of `files` that the loader finds and that has what is needed; nullptr when there is none.
std::unique_ptr<BlasLibrary> open_onednn(const std::vector<std::string>& files);
std::unique_ptr<BlasLibrary> open_openblas(const std::vector<std::string>& files);

}  // namespace hydrac::runtime
