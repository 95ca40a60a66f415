// Copies between the host and a GPU program's arena outside of steps: tensors, first parameters.
#include <algorithm>

#include "runtime/cuda/cuda_step_program.h"

namespace hydrac::runtime::cuda {

namespace {

// Splits a range of the arena into the bytes on the GPU (the first `arena_bytes` of the arena) and those on
// the host, because a driver copy works on one memory; calls part(first, bytes) for each.
template <class Part>
void in_one_memory(int64_t arena_bytes, int64_t offset, int64_t bytes, Part&& part) {
  const int64_t on_device = std::clamp<int64_t>(arena_bytes - offset, 0, bytes);
  if (on_device > 0) part(0, on_device);
  if (on_device < bytes) part(on_device, bytes - on_device);
}

}  // namespace

void CudaStepProgram::copy_out(int64_t offset, std::span<std::byte> to) {
  flush();
  stream_.synchronize();
  in_one_memory(arena_bytes(), offset, static_cast<int64_t>(to.size()), [&](int64_t first, int64_t bytes) {
    copy_to_host(to.data() + first, arena() + offset + first, bytes);
  });
}

void CudaStepProgram::copy_in(int64_t offset, std::span<const std::byte> from) {
  flush();
  stream_.synchronize();
  in_one_memory(arena_bytes(), offset, static_cast<int64_t>(from.size()), [&](int64_t first, int64_t bytes) {
    copy_to_device(arena() + offset + first, from.data() + first, bytes);
  });
}

void CudaStepProgram::start(const std::vector<NamedTensor>& given) {
  flush();
  for (int i = 0; i < 2; ++i) pieces_.push_back({PinnedBuffer(kPiece)});
  LaidOutProgram::start(given);
  stream_.synchronize();
  pieces_.clear();
}

// One piece is made while the one before is copied.
void CudaStepProgram::copy_in_pieces(int64_t offset, int64_t bytes, const MakePiece& make) {
  for (int64_t first = 0; first < bytes; first += kPiece) {
    const int64_t count = std::min(kPiece, bytes - first);
    const Piece& piece = pieces_[next_piece_++ % pieces_.size()];
    piece.copied.synchronize();  // its last copy, if there was one
    make(first, {piece.memory.data(), static_cast<size_t>(count)});
    in_one_memory(arena_bytes(), offset + first, count, [&](int64_t at, int64_t part) {
      copy_to_device(arena() + offset + first + at, piece.memory.data() + at, part, stream_);
    });
    piece.copied.record(stream_);
  }
}

void CudaStepProgram::clear_persistent() {
  fill_bytes(arena(), 0, layout().persistent_bytes, stream_);
  const int64_t behind = layout().kept_bytes + layout().host_bytes;
  const int64_t at = layout().arena_bytes - behind;
  in_one_memory(arena_bytes(), at, behind,
                [&](int64_t first, int64_t bytes) { fill_bytes(arena() + at + first, 0, bytes, stream_); });
  stream_.synchronize();
}

}  // namespace hydrac::runtime::cuda
