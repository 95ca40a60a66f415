// A program's results on given batches, in host memory, to be compared with the oracle's and with another
// training's.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "verify/job.h"

namespace hydrac::verify {

// Parameters by name, a tensor a slot, without the rows that padding appended.
using Tensors = std::map<std::string, std::vector<std::vector<float>>>;

struct Training {
  std::vector<runtime::StepResult> steps;
  double evaluation = 0;  // the first micro-batch's share of its step's loss, evaluated after the last step
  Tensors gradients;      // of the first step, before clipping, the loss scale divided out
  Tensors parameters;     // that train, after the last step
  std::map<std::string, int64_t> columns;  // of each of these
  Tensors frozen_before, frozen;
  Choices choices;
};

// One optimizer step. In fp16 a step that overflows only halves the loss scale. Like the oracle, this then
// repeats it with the same batches and counters, so that no step is missing from the comparison.
// `before_update` is called when the step's gradients are complete, `after_micro_step` with the number of
// each micro-batch. RunError if the step overflows even without a scale.
runtime::StepResult take_step(
    runtime::StepProgram& program, const std::vector<runtime::Batch>& micro_batches,
    const std::function<void()>& before_update = [] {},
    const std::function<void(size_t)>& after_micro_step = [](size_t) {});

// The starting values that a run of the program's spec has, from files where it names some. InputError.
void initialize(targets::Executable& program);

// Sets the program to its starting values and takes a step for each of the batches' steps.
Training train(targets::Executable& program, const Batches& batches);

}  // namespace hydrac::verify
