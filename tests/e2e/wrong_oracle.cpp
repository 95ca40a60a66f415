// hydrac-oracle with one gradient doubled in its result: an oracle that `hydrac verify` must disagree with.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

namespace {

constexpr const char* kTensor = "grad.attn.qkv.weight.0";

int run_real_oracle(const char* verb, const char* dir) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(HYDRAC_ORACLE_PROGRAM, HYDRAC_ORACLE_PROGRAM, verb, dir, static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void double_gradient(const std::filesystem::path& file) {
  std::vector<double> values;
  uint64_t place = 0;
  {
    const hydrac::runtime::SafetensorsReader reader(file);
    const auto& tensor = reader.at(kTensor);
    const auto bytes = reader.bytes(tensor);
    values.resize(bytes.size() / sizeof(double));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    uint64_t data_bytes = 0;
    for (const auto& other : reader.tensors()) data_bytes = std::max(data_bytes, other.end);
    place = std::filesystem::file_size(file) - data_bytes + tensor.begin;
  }
  for (double& value : values) value *= 2;
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(place));
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(double)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (const int code = run_real_oracle(argv[1], argv[2])) return code;
  double_gradient(std::filesystem::path(argv[2]) / "result.safetensors");
  return 0;
}
