// Any bytes as a safetensors file: read, with every tensor inside the file, or refused with an InputError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/tensor_io.h"
#include "tests/fuzz/good_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hydrac::runtime;
  try {
    const SafetensorsReader file(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
    for (const TensorEntry& tensor : file.tensors()) {
      const std::span<const std::byte> bytes = file.bytes(tensor);
      if (bytes.size() != static_cast<size_t>(tensor.elements() * dtype_bytes(tensor.dtype))) std::abort();
      std::vector<float> values(static_cast<size_t>(tensor.elements()));
      // One that is no floating-point tensor ends the reading here.
      read_tensor(file, {tensor.name, tensor.shape, values.data()});
    }
  } catch (const InputError& error) {
    hydrac::fuzz::require_good_message(error);
  }
  return 0;
}
