// A rank's parts of a program's tensors if ranks share layers: how they start, are read and are written.
#include <algorithm>
#include <numeric>

#include "hydrac/random.h"
#include "runtime/checkpoint/float_formats.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/initialize.h"
#include "runtime/program/laid_out_program.h"
#include "runtime/program/shared_bytes.h"
#include "runtime/program/tensor_pieces.h"

namespace hydrac::runtime {

int LaidOutProgram::tensor_rank() const {
  return layout_.tensor_ranks > 1 ? ranks().rank(RankGroup::tensor) : 0;
}

int LaidOutProgram::data_rank() const {
  return ranks().rank(RankGroup::data);
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
  if (layout_.state.first_row)
    write_scalar(layout_.state.first_row, static_cast<int32_t>(layout_.stream_rows * tensor_rank()));
  if (layout_.state.own_seed)
    write_scalar(layout_.state.own_seed,
                 random_key(layout_.seed, parts, static_cast<uint32_t>(tensor_rank())));
}

// The same random numbers as those of the whole parameter, in their places.
void LaidOutProgram::write_start_of_rank(const ParameterStart& start, uint32_t stream) {
  const int64_t element = dtype_bytes(start.dtype);
  for (const TensorPiece& piece : start.pieces) {
    const OwnBytes own = own_bytes(piece, data_rank());
    if (own.count <= 0) continue;
    copy_in_pieces(own.address, own.count, [&](int64_t first, std::span<std::byte> memory) {
      std::ranges::fill(memory, std::byte{0});  // padding
      const int64_t begin = own.first + first;
      for_each_stretch(piece, tensor_rank(), begin, static_cast<int64_t>(memory.size()),
                       [&](const PieceStretch& stretch) {
                         std::vector<float> numbers(static_cast<size_t>(stretch.bytes / element));
                         initialize_parameter(numbers, stretch.whole / element, start, layout_.seed, stream);
                         encode_floats(numbers, start.dtype, memory.data() + stretch.own - begin);
                       });
    });
  }
}

// All ranks send as many bytes as the one that has most; what several have counts once.
void LaidOutProgram::collect_piece(const TensorPiece& piece, std::span<std::byte> to) {
  const int groups = ranks().size(RankGroup::data), sharing = ranks().size(RankGroup::tensor);
  int64_t most = 0;
  for (int group = 0; group < groups; ++group) most = std::max(most, own_bytes(piece, group).count);
  std::vector<std::byte> own(static_cast<size_t>(most));
  const OwnBytes mine = own_bytes(piece, data_rank());
  if (mine.count > 0) copy_out(mine.address, std::span(own).first(static_cast<size_t>(mine.count)));
  const auto take = [&](int rank, size_t first, std::span<const std::byte> bytes) {
    const int group = rank / sharing, place = rank % sharing;
    if (place >= piece.parts || (group > 0 && !piece.shared)) return;
    const OwnBytes theirs = own_bytes(piece, group);
    const int64_t before = static_cast<int64_t>(first), begin = theirs.first + before;
    const int64_t count = std::min(static_cast<int64_t>(bytes.size()), theirs.count - before);
    if (count <= 0) return;
    for_each_stretch(piece, place, begin, count, [&](const PieceStretch& stretch) {
      std::copy_n(bytes.begin() + (stretch.own - begin), stretch.bytes, to.begin() + stretch.whole);
    });
  };
  if (piece.parts > 1 || piece.shared) return ranks().collect(own, take);
  if (ranks().leads()) take(0, 0, own);
}

void LaidOutProgram::upload_piece(const TensorPiece& piece, std::span<const std::byte> from) {
  const OwnBytes mine = own_bytes(piece, data_rank());
  if (mine.count <= 0) return;
  std::vector<std::byte> own(static_cast<size_t>(mine.count), std::byte{0});
  for_each_stretch(
      piece, piece.parts > 1 ? tensor_rank() : 0, mine.first, mine.count, [&](const PieceStretch& stretch) {
        std::copy_n(from.begin() + stretch.whole, stretch.bytes, own.begin() + (stretch.own - mine.first));
      });
  copy_in(mine.address, own);
}

}  // namespace hydrac::runtime
