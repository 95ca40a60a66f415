// The hardware hydrac knows: the CPU, GPUs by name, and GPU architectures. The table is targets.def.
#pragma once
#include <span>
#include <string_view>

#include "cuda/chip.h"

namespace hydrac::targets {

// Peaks are dense TFLOP/s with fp32 accumulation. Sizes and peaks are 0 if the hardware has no such unit, or
// if they are unknown until the program runs on the machine (cpu). For a GPU given by arch only `sms` is
// known, as that of the usual chip.
struct Target {
  std::string_view name;     // "cpu", "h200", "sm_90"
  std::string_view arch;     // "sm_90"; empty for cpu
  int capability = 0;        // 90 for sm_90; 0 for cpu
  int sms = 0;               // streaming multiprocessors
  double memory_gib = 0;     // what a program can use
  double bandwidth_gbs = 0;  // device memory, 1e9 bytes a second
  double links_gbs = 0;      // to other GPUs of the machine, one way, 1e9 bytes a second
  double fp32_tflops = 0;    // without tensor cores
  double tf32_tflops = 0;
  double fp16_tflops = 0;
  double bf16_tflops = 0;
  double fp8_tflops = 0;

  // To the host's memory, one way, 1e9 bytes a second: PCIe of 16 lanes, of the architecture's generation.
  double host_gbs() const { return is_cpu() ? 0 : capability >= 90 ? 64 : capability >= 80 ? 32 : 16; }

  cuda::Chip chip() const { return {capability, sms}; }
  bool is_cpu() const { return capability == 0; }
  bool has_tf32() const { return capability >= 80; }
  bool has_fp16() const { return capability >= 75; }
  bool has_bf16() const { return capability >= 80; }
  bool has_fp8() const { return capability >= 89; }
};

// Every target: cpu, then GPUs by name, then by arch. "auto" is none: the caller decides what it stands for.
std::span<const Target> all();

// The target called `name`, or nullptr.
const Target* find(std::string_view name);

// A GPU that exists and is no target by its name.
struct OtherGpu {
  std::string_view name;  // in small letters, without dashes: "rtx5080"
  int capability = 0;
};
std::span<const OtherGpu> other_gpus();

}  // namespace hydrac::targets
