#include "runtime/program/laid_out_program.h"

#include <algorithm>

#include "runtime/program/initialize.h"

namespace hydrac::runtime {

void LaidOutProgram::initialize() {
  clear_persistent();
  uint32_t stream = 0;
  for (const ParameterStart& start : layout_.starts) write_start(start, stream++);
  parameters_changed();
  write_scalar(layout_.state.rng_seed, layout_.seed);
  if (layout_.state.loss_scale) write_scalar(layout_.state.loss_scale, layout_.state.initial_loss_scale);
  if (layout_.rope) {
    std::vector<float> cos(static_cast<size_t>(layout_.rope->cos.elements)), sin(cos.size());
    fill_rope_tables(*layout_.rope, cos, sin);
    write_floats(layout_.rope->cos, cos);
    write_floats(layout_.rope->sin, sin);
  }
}

// In pieces that stay in the processor's caches until they are written.
void LaidOutProgram::write_start(const ParameterStart& start, uint32_t stream) {
  constexpr int64_t kPiece = 1 << 20;
  std::vector<float> piece(static_cast<size_t>(std::min(kPiece, start.place.elements)));
  for (int64_t first = 0; first < start.place.elements; first += kPiece) {
    const int64_t count = std::min(kPiece, start.place.elements - first);
    const std::span<float> values = std::span(piece).first(static_cast<size_t>(count));
    initialize_parameter(values, first, start, layout_.seed, stream);
    write_floats({start.place.offset + first * static_cast<int64_t>(sizeof(float)), count}, values);
  }
}

void LaidOutProgram::refresh_working_copies() {
  if (!stale_) return;
  stale_ = false;
  run(Function::load);
}

void LaidOutProgram::download(const NamedTensor& tensor, std::span<std::byte> to) {
  copy_out(static_cast<int64_t>(tensor.address), to);
}

void LaidOutProgram::upload(const NamedTensor& tensor, std::span<const std::byte> from) {
  copy_in(static_cast<int64_t>(tensor.address), from);
  parameters_changed();
}

Counters LaidOutProgram::counters() {
  return {read_scalar<int32_t>(layout_.state.step), read_scalar<uint32_t>(layout_.state.rng_step)};
}

void LaidOutProgram::set_counters(const Counters& counters) {
  write_scalar(layout_.state.step, static_cast<int32_t>(counters.step));
  write_scalar(layout_.state.rng_step, static_cast<uint32_t>(counters.rng_step));
}

}  // namespace hydrac::runtime
