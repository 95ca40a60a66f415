// compile_cached(): one entry is three files of the same name. NAME.cu is the source, for people; NAME.cubin
// or NAME.ptx is the code. NAME.txt, sealed and written last, describes the code and holds the compiler's
// log:
//   hydrac device code 1
//   image BYTES HASH
//   kernel NAME REGISTERS STACK SPILL_STORES SPILL_LOADS SHARED      (one line each)
//   log
//   ...
#include <fmt/format.h>

#include <chrono>
#include <sstream>

#include "runtime/cache/cache_warning.h"
#include "runtime/cache/sealed_file.h"
#include "runtime/data/hash.h"
#include "targets/device_code/nvrtc.h"

namespace hydrac::device_code {

namespace fs = std::filesystem;
using runtime::Hash64;
using runtime::read_sealed;
using runtime::read_whole;
using runtime::write_sealed;
using runtime::write_whole;

namespace {

constexpr const char* kFirstLine = "hydrac device code 1";

std::uint64_t request_hash(const CompileRequest& request) {
  Hash64 hash;
  hash.add(std::string_view(kFirstLine))
      .add(nvrtc_version())
      .add(architecture(request.capability, request.kind));
  hash.add(request.name).add(request.source).add(request.headers.size());
  for (const auto& [name, text] : request.headers) hash.add(name).add(text);
  for (const std::string& option : request.options) hash.add(option);
  return hash.value();
}

std::string image_line(const std::string& image) {
  return fmt::format("image {} {:016x}", image.size(), Hash64().add(image).value());
}

std::string entry_text(const DeviceCode& code) {
  std::string text = fmt::format("{}\n{}\n", kFirstLine, image_line(code.image));
  for (const KernelResources& kernel : code.kernels) {
    text += fmt::format("kernel {} {} {} {} {} {}\n", kernel.kernel, kernel.registers, kernel.stack_bytes,
                        kernel.spill_store_bytes, kernel.spill_load_bytes, kernel.shared_bytes);
  }
  return text + "log\n" + code.log;
}

// False when the entry is not there, or, after a warning, damaged.
bool read_entry(const fs::path& text_path, const fs::path& image_path, DeviceCode& code) {
  const auto text = read_sealed(text_path);
  if (!text) return false;
  auto image = read_whole(image_path);
  if (!image) return false;
  std::istringstream lines(*text);
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) return false;
  if (!std::getline(lines, line) || line != image_line(*image)) {
    runtime::warn_of_damage(image_path, "does not match its checksum");
    return false;
  }
  while (std::getline(lines, line) && line != "log") {
    std::istringstream words(line);
    std::string first;
    KernelResources kernel;
    words >> first >> kernel.kernel >> kernel.registers >> kernel.stack_bytes >> kernel.spill_store_bytes >>
        kernel.spill_load_bytes >> kernel.shared_bytes;
    if (!words || first != "kernel") return false;
    code.kernels.push_back(kernel);
  }
  if (line != "log") return false;
  code.log.assign(std::istreambuf_iterator<char>(lines), {});
  code.image = std::move(*image);
  return true;
}

}  // namespace

DeviceCode compile_cached(const CompileRequest& request, const fs::path& cache_dir) {
  const auto start = std::chrono::steady_clock::now();
  const fs::path base = cache_dir / fmt::format("{:016x}", request_hash(request));
  const bool ptx = request.kind == CodeKind::ptx;
  const fs::path image_path = base.string() + (ptx ? ".ptx" : ".cubin");
  DeviceCode code;
  if (read_entry(base.string() + ".txt", image_path, code)) {
    code.architecture = architecture(request.capability, request.kind);
    code.from_cache = true;
    code.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return code;
  }
  code = compile(request);
  if (!write_whole(base.string() + ".cu", request.source, /*durable=*/false) ||
      !write_whole(image_path, code.image) || !write_sealed(base.string() + ".txt", entry_text(code)))
    runtime::warn_of_unwritable_cache(cache_dir);
  return code;
}

}  // namespace hydrac::device_code
