// Matrices that a program holds as NF4 codes: written from numbers and read as these.
#include <algorithm>

#include "runtime/checkpoint/tensor_io.h"
#include "runtime/program/laid_out_program.h"
#include "runtime/program/nf4.h"

namespace hydrac::runtime {

void LaidOutProgram::write_nf4(const Nf4Place& place, const MakeNumbers& make) {
  constexpr int64_t kNumbers = kPiece / static_cast<int64_t>(sizeof(float));  // whole blocks
  nf4_piece_.resize(static_cast<size_t>(std::min(kNumbers, place.elements)));
  nf4_encoder_.begin(place.elements);
  for (int64_t first = 0; first < place.elements; first += kNumbers) {
    const std::span piece =
        std::span(nf4_piece_).first(static_cast<size_t>(std::min(kNumbers, place.elements - first)));
    make(first, piece);
    nf4_encoder_.add(piece);
  }
  const Nf4& matrix = nf4_encoder_.finish();
  copy_in(static_cast<int64_t>(place.codes), std::as_bytes(std::span(matrix.codes)));
  copy_in(static_cast<int64_t>(place.block_codes), std::as_bytes(std::span(matrix.block_codes)));
  copy_in(static_cast<int64_t>(place.groups), std::as_bytes(std::span(matrix.groups)));
}

std::vector<float> LaidOutProgram::read_nf4(const Nf4Place& place) {
  Nf4 matrix;
  resize(matrix, place.elements);
  copy_out(static_cast<int64_t>(place.codes), std::as_writable_bytes(std::span(matrix.codes)));
  copy_out(static_cast<int64_t>(place.block_codes), std::as_writable_bytes(std::span(matrix.block_codes)));
  copy_out(static_cast<int64_t>(place.groups), std::as_writable_bytes(std::span(matrix.groups)));
  std::vector<float> numbers(static_cast<size_t>(place.elements));
  dequantize_nf4(matrix, numbers);
  return numbers;
}

}  // namespace hydrac::runtime
