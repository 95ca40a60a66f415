#include "targets/cuda/kernels.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "codegen/cuda/program.h"
#include "targets/templates/templates.h"

namespace hydrac::targets {

namespace {

using device_code::CodeKind;
using device_code::CompileRequest;
using device_code::DeviceCode;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs work(0), ..., work(count - 1) on `most` threads, including this one; rethrows the first exception.
void in_parallel(size_t count, unsigned most, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  auto worker = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min<size_t>(count, most); ++i) threads.emplace_back(worker);
  worker();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

std::vector<DeviceCode> compile_on(unsigned threads, const program::Program& program, int capability,
                                   CodeKind kind, const std::filesystem::path& cache_dir) {
  const auto headers = device_headers();
  std::vector<DeviceCode> code(program.kernels.size());
  in_parallel(code.size(), threads, [&](size_t k) {
    const program::Kernel& kernel = program.kernels[k];
    CompileRequest request;
    request.source = codegen::cuda_source(program, {&kernel});
    request.name = kernel.name + ".cu";
    request.capability = capability;
    request.headers = headers;
    request.options = {"--device-as-default-execution-space"};
    if (!may_contract(kernel)) request.options.push_back("--fmad=false");
    request.kind = kind;
    code[k] = compile_cached(request, cache_dir);
  });
  return code;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> device_headers() {
  const std::string standard = "cuda/nvrtc/", device = "include/";
  std::vector<std::pair<std::string, std::string>> headers;
  for (const TemplateFile& file : template_files()) {
    std::string name = file.path;
    if (name.starts_with(standard)) name = name.substr(standard.size());
    if (name.starts_with(device)) name = name.substr(device.size());
    if (!name.starts_with("cpu/")) headers.emplace_back(name, file.text);
  }
  return headers;
}

std::vector<DeviceCode> compile_kernels(const program::Program& program, int capability, CodeKind kind,
                                        const std::filesystem::path& cache_dir) {
  return compile_on(std::max(1u, std::thread::hardware_concurrency()), program, capability, kind, cache_dir);
}

std::future<CompiledKernels> start_compiling(const program::Program& program, int capability, CodeKind kind,
                                             const std::filesystem::path& cache_dir) {
  return std::async(std::launch::async, [&program, capability, kind, cache_dir] {
    const auto start = std::chrono::steady_clock::now();
    const unsigned threads = std::max(2u, std::thread::hardware_concurrency()) - 1;
    CompiledKernels compiled{compile_on(threads, program, capability, kind, cache_dir), 0};
    compiled.seconds = seconds_since(start);
    return compiled;
  });
}

std::string kernel_table(const program::Program& program, const std::vector<DeviceCode>& code) {
  std::string text = fmt::format("{:<48} {:>9} {:>7} {:>7} {:>8} {:>10} {:>7}\n", "kernel", "registers",
                                 "spilled", "stack", "shared", "blocks", "threads");
  for (size_t k = 0; k < code.size(); ++k) {
    const program::Kernel& kernel = program.kernels[k];
    for (const device_code::KernelResources& r : code[k].kernels) {
      text += fmt::format("{:<48} {:>9} {:>7} {:>7} {:>8} {:>10} {:>7}\n", r.kernel, r.registers,
                          r.spill_store_bytes + r.spill_load_bytes, r.stack_bytes,
                          r.shared_bytes + kernel.block.shared_bytes,
                          grids_of(program, static_cast<int>(k)).at(0).blocks, kernel.block.threads);
    }
  }
  return text;
}

LoadedKernels load_kernels(const program::Program& program, const CompiledKernels& compiled) {
  const auto start = std::chrono::steady_clock::now();
  LoadedKernels loaded;
  for (size_t k = 0; k < compiled.code.size(); ++k) {
    loaded.from_cache += compiled.code[k].from_cache;
    loaded.modules.emplace_back(compiled.code[k].image);
    loaded.kernels.push_back(loaded.modules.back().kernel(program.kernels[k].name));
  }
  loaded.seconds = compiled.seconds + seconds_since(start);
  return loaded;
}

}  // namespace hydrac::targets
