// hydrac-oracle with one gradient scaled by 1.02 in its result, or with another first beta than it was told
// where the optimizer is Lion: an oracle that `hydrac verify` must disagree with.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
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

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Whether it is Lion's.
bool change_lions_beta(const std::filesystem::path& job) {
  std::string text = text_of(job);
  const size_t lion = text.find("\"lion\"");
  if (lion == std::string::npos) return false;
  const std::string beta = "0.9,";
  text.replace(text.find(beta, lion), beta.size(), "0.8,");
  std::ofstream(job) << text;
  return true;
}

void scale_gradient(const std::filesystem::path& file) {
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
  for (double& value : values) value *= 1.02;
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(place));
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(double)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::filesystem::path folder = argv[2];
  const bool is_lion = change_lions_beta(folder / "job.json");
  if (const int code = run_real_oracle(argv[1], argv[2])) return code;
  if (!is_lion) scale_gradient(folder / "result.safetensors");
  return 0;
}
