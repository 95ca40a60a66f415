// What a rank has of a program's tensors where ranks share layers: how it starts, is read and is written.
#include <algorithm>
#include <numeric>

#include "hydrac/random.h"
#include "runtime/checkpoint/float_formats.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/initialize.h"
#include "runtime/program/laid_out_program.h"
#include "runtime/program/tensor_pieces.h"

namespace hydrac::runtime {

int LaidOutProgram::tensor_rank() const {
  return layout_.tensor_ranks > 1 ? ranks().rank(RankGroup::tensor) : 0;
}

// Sites and steps of dropout are small numbers; this constant keeps a rank's seeds apart from them.
void LaidOutProgram::write_state_of_part() {
  constexpr uint32_t parts = 0x54454E53;
  const InputPlaces& inputs = layout_.inputs;
  if (layout_.state.own_classes) {
    const int64_t behind = layout_.vocabulary - inputs.first_own_id;
    write_scalar(layout_.state.own_classes,
                 static_cast<int32_t>(std::clamp<int64_t>(behind, 0, inputs.own_ids)));
  }
  if (layout_.state.own_seed)
    write_scalar(layout_.state.own_seed,
                 random_key(layout_.seed, parts, static_cast<uint32_t>(tensor_rank())));
}

// The same random numbers as those of the whole parameter, in their places.
void LaidOutProgram::write_start_of_rank(const ParameterStart& start, uint32_t stream) {
  const int64_t element = dtype_bytes(start.dtype);
  for (const TensorPiece& piece : start.pieces) {
    copy_in_pieces(static_cast<int64_t>(piece.address), piece.own_bytes(),
                   [&](int64_t begin, std::span<std::byte> memory) {
                     std::ranges::fill(memory, std::byte{0});  // padding
                     for_each_stretch(
                         piece, tensor_rank(), begin, static_cast<int64_t>(memory.size()),
                         [&](const PieceStretch& stretch) {
                           std::vector<float> numbers(static_cast<size_t>(stretch.bytes / element));
                           initialize_parameter(numbers, stretch.whole / element, start, layout_.seed,
                                                stream);
                           encode_floats(numbers, start.dtype, memory.data() + stretch.own - begin);
                         });
                   });
  }
}

// All ranks send what they have; that of the first ones that share layers counts.
void LaidOutProgram::collect_piece(const TensorPiece& piece, std::span<std::byte> to) {
  std::vector<std::byte> own(static_cast<size_t>(piece.own_bytes()));
  copy_out(static_cast<int64_t>(piece.address), own);
  const auto take = [&](int rank, size_t first, std::span<const std::byte> bytes) {
    if (rank >= piece.parts) return;
    const auto begin = static_cast<int64_t>(first);
    for_each_stretch(
        piece, rank, begin, static_cast<int64_t>(bytes.size()), [&](const PieceStretch& stretch) {
          std::copy_n(bytes.begin() + (stretch.own - begin), stretch.bytes, to.begin() + stretch.whole);
        });
  };
  if (piece.parts > 1) return ranks().collect(own, take);
  if (ranks().leads()) take(0, 0, own);
}

void LaidOutProgram::upload_piece(const TensorPiece& piece, std::span<const std::byte> from) {
  std::vector<std::byte> own(static_cast<size_t>(piece.own_bytes()), std::byte{0});
  for_each_stretch(piece, piece.parts > 1 ? tensor_rank() : 0, 0, piece.own_bytes(),
                   [&](const PieceStretch& stretch) {
                     std::copy_n(from.begin() + stretch.whole, stretch.bytes, own.begin() + stretch.own);
                   });
  copy_in(static_cast<int64_t>(piece.address), own);
}

}  // namespace hydrac::runtime
