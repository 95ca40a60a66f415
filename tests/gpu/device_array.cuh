// Device memory for the test programs that nvcc builds.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/types.cuh"

namespace hydrac::test {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(3);
}

constexpr std::size_t kGuardBytes = 4096;

// Device memory with guard bytes behind it, poisoned: as float, bf16 and f16 the poison is NaN.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    check(cudaMalloc(&data_, size * sizeof(T) + kGuardBytes), "cudaMalloc");
    poison();
  }
  explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) {
    check(cudaMemcpy(data_, from.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  DeviceArray(DeviceArray&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
  }
  ~DeviceArray() { cudaFree(data_); }

  void poison() { check(cudaMemset(data_, 0xFF, size_ * sizeof(T) + kGuardBytes), "cudaMemset"); }
  T* get() { return data_; }
  std::size_t size() const { return size_; }
  // The content; `intact` says whether the guard still is.
  std::vector<T> read(bool& intact) const {
    std::vector<unsigned char> bytes(size_ * sizeof(T) + kGuardBytes);
    check(cudaMemcpy(bytes.data(), data_, bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    intact = std::all_of(bytes.end() - kGuardBytes, bytes.end(), [](unsigned char b) { return b == 0xFF; });
    std::vector<T> result(size_);
    std::memcpy(result.data(), bytes.data(), size_ * sizeof(T));
    return result;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

template <class Storage>
std::vector<Storage> random_values(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Storage> values(size);
  constexpr std::size_t period = 999983;  // drawing is slow; a prime this large lines up with no stride
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = i < period ? from_float<Storage>(normal(random)) : values[i - period];
  }
  return values;
}

}  // namespace hydrac::test
