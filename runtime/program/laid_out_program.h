// A StepProgram over one arena that a ProgramLayout describes: all that does not depend on where the arena is
// and how its functions run. CpuStepProgram and CudaStepProgram add that; who derives from those adds the
// calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/program/layout.h"
#include "runtime/train/step_program.h"

namespace hydrac::runtime {

class LaidOutProgram : public StepProgram {
 public:
  explicit LaidOutProgram(ProgramLayout layout) : layout_(std::move(layout)) {}

  const ProgramLayout& layout() const { return layout_; }

  // Bytes of the arena, addressed from its start. They wait for what is running. After a copy over
  // parameters: parameters_changed().
  virtual void copy_out(int64_t offset, std::span<std::byte> to) = 0;
  virtual void copy_in(int64_t offset, std::span<const std::byte> from) = 0;
  // Working copies are made anew before the next function that reads them.
  void parameters_changed() { stale_ = layout_.working_copies; }

  void initialize() override;
  bool can_generate() const override { return static_cast<bool>(layout_.results.logits); }
  int64_t context_length() const override { return layout_.context_length; }
  std::vector<NamedTensor> parameters() override { return layout_.parameters; }
  std::vector<NamedTensor> optimizer_state() override { return layout_.optimizer_state; }
  void download(const NamedTensor& tensor, std::span<std::byte> to) override;
  void upload(const NamedTensor& tensor, std::span<const std::byte> from) override;
  Counters counters() override;
  void set_counters(const Counters& counters) override;
  int64_t arena_bytes() const override { return layout_.arena_bytes; }
  double flop_per_target() const override { return layout_.flop_per_target; }

 protected:
  // The arena's persistent_bytes become 0.
  virtual void clear_persistent() = 0;
  // Runs a function once and waits for it.
  virtual void run(Function function) = 0;

  // To be called before a function that reads working copies of parameters.
  void refresh_working_copies();

  template <typename T>
  T read_scalar(Place place) {
    T result;
    copy_out(place.offset, std::as_writable_bytes(std::span(&result, 1)));
    return result;
  }
  template <typename T>
  void write_scalar(Place place, T number) {
    copy_in(place.offset, std::as_bytes(std::span(&number, 1)));
  }

 private:
  void write_start(const ParameterStart& start, uint32_t stream);
  void write_floats(Place place, std::span<const float> data) { copy_in(place.offset, std::as_bytes(data)); }

  ProgramLayout layout_;
  bool stale_ = false;  // parameters changed, and their working copies were not made anew
};

}  // namespace hydrac::runtime
