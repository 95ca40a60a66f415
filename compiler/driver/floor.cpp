#include "driver/floor.h"

#include <algorithm>

#include "program/for_each_call.h"

namespace hydrac::driver {

Peaks peaks_of(const targets::Target& target, spec::Precision precision) {
  double tflops = 0;
  switch (precision) {
    case spec::Precision::fp32:
      tflops = target.fp32_tflops;
      break;
    case spec::Precision::tf32:
      tflops = target.tf32_tflops;
      break;
    case spec::Precision::bf16:
    case spec::Precision::fp8:
      tflops = target.bf16_tflops;
      break;
    case spec::Precision::fp16:
      tflops = target.fp16_tflops;
      break;
  }
  return {tflops * 1e12, target.fp8_tflops * 1e12, target.bandwidth_gbs * 1e9};
}

double floor_seconds(const Peaks& peaks, const program::Call& call) {
  const double memory = peaks.bytes_per_second > 0 ? call.bytes / peaks.bytes_per_second : 0;
  const program::GemmShape* matmul = matmul_of(call);
  const bool is_f8 = matmul ? matmul->is_f8() : call.multiplies_fp8;
  const double flops = is_f8 ? peaks.flops_of_8_bits : peaks.flops;
  return call.multiplies_matrices && flops > 0 ? std::max(memory, call.flop / flops) : memory;
}

StepWork step_work(const Compiled& compiled) {
  return step_work(compiled,
                   peaks_of(*targets::find(compiled.spec.target), compiled.spec.optimizations.precision));
}

StepWork step_work(const Compiled& compiled, const Peaks& peaks) {
  StepWork work;
  for (const program::Function& function : compiled.program.functions) {
    const bool micro_step = function.name == "micro_step";
    if (!micro_step && function.name != "update") continue;
    const int64_t times = micro_step ? spec::micro_batches_of_step(compiled.spec) : 1;
    for (const program::Section& section : function.sections) {
      const auto runs = static_cast<double>(std::max(section.layers, 1) * times);
      for (const program::Call& call : section.calls) {
        work.calls += std::max(section.layers, 1) * times;
        if (is_collective(call)) continue;
        if (program::is<program::Copy>(call)) {
          work.copied_bytes += runs * call.bytes;
          continue;
        }
        work.flop += runs * call.flop;
        work.bytes += runs * call.bytes;
        (call.multiplies_matrices ? work.matmul_flop : work.other_bytes) +=
            runs * (call.multiplies_matrices ? call.flop : call.bytes);
        work.floor_seconds += runs * floor_seconds(peaks, call);
      }
    }
  }
  return work;
}

int64_t bytes_sent_per_step(const Compiled& compiled) {
  double bytes = 0;
  for (const program::Function& function : compiled.program.functions) {
    const bool is_micro_step = function.name == "micro_step";
    if (!is_micro_step && function.name != "update") continue;
    const double times = is_micro_step ? static_cast<double>(spec::micro_batches_of_step(compiled.spec)) : 1;
    for_each_call(function, [&](const program::Section&, const program::Call& call, int, int) {
      if (is_collective(call)) bytes += times * call.bytes;
    });
  }
  return static_cast<int64_t>(bytes);
}

double sending_seconds(const Compiled& compiled) {
  return seconds_over_links(*targets::find(compiled.spec.target),
                            static_cast<double>(bytes_sent_per_step(compiled)));
}

// NCCL's sums of 0.1 to 0.5 GB over two H100 reach 0.64 to 0.7 of what NVLink can carry one way.
double seconds_over_links(const targets::Target& target, double bytes) {
  return target.links_gbs > 0 ? bytes / (0.7e9 * target.links_gbs) : 0;
}

}  // namespace hydrac::driver
