// A program's parameters and state before the first step.
#include <algorithm>
#include <map>
#include <set>

#include "runtime/checkpoint/tensor_io.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/initialize.h"
#include "runtime/program/laid_out_program.h"
#include "runtime/program/shared_bytes.h"

namespace hydrac::runtime {

namespace {

// encode_floats() on all threads: each number by itself, so that how they are shared out changes nothing.
void encode_in_parallel(std::span<const float> values, SafetensorsDtype dtype, std::byte* out) {
  const auto count = static_cast<int64_t>(values.size());
  constexpr int64_t kChunk = 1 << 16;
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < count; first += kChunk) {
    encode_floats(values.subspan(first, std::min(kChunk, count - first)), dtype,
                  out + first * dtype_bytes(dtype));
  }
}

// The starts that the tensors of `given` fill: those all of whose bytes are theirs.
class Filled {
 public:
  explicit Filled(const std::vector<NamedTensor>& given) {
    for (const NamedTensor& tensor : given) {
      if (tensor.nf4)
        codes_.insert(tensor.nf4->codes);
      else
        bytes_[static_cast<int64_t>(tensor.address)] = tensor.bytes();
    }
  }

  bool contains(const ParameterStart& start) const {
    if (!start.nf4.empty())
      return std::ranges::all_of(start.nf4,
                                 [&](const Nf4Place& part) { return codes_.contains(part.codes); });
    if (!start.pieces.empty()) return false;  // a rank's parts, which are drawn anyway
    int64_t at = start.place.offset;
    const int64_t end = at + start.place.elements * dtype_bytes(start.dtype);
    for (auto next = bytes_.find(at); at < end && next != bytes_.end(); next = bytes_.find(at))
      at += next->second;
    return at == end;
  }

 private:
  std::map<int64_t, int64_t> bytes_;  // of tensors, by address
  std::set<uint64_t> codes_;
};

}  // namespace

void LaidOutProgram::start(const std::vector<NamedTensor>& given) {
  clear_persistent();
  const Filled filled(given);
  uint32_t stream = 0;
  for (const ParameterStart& start : layout_.starts) {
    if (!filled.contains(start)) write_start(start, stream);
    ++stream;
  }
  parameters_changed();
  write_scalar(layout_.state.rng_seed, layout_.seed);
  if (layout_.state.rank) write_scalar(layout_.state.rank, int32_t{ranks().rank(RankGroup::data)});
  write_state_of_part();
  if (layout_.state.loss_scale) write_scalar(layout_.state.loss_scale, layout_.state.initial_loss_scale);
  if (layout_.state.rate_digits) {
    write_scalar(layout_.state.rate_digits, layout_.state.initial_rate.digits);
    write_scalar(layout_.state.rate_unit, layout_.state.initial_rate.unit);
    write_scalar(layout_.state.rate_trial, 0.0f);
  }
  if (layout_.rope) {
    std::vector<float> cos(static_cast<size_t>(layout_.rope->cos.elements)), sin(cos.size());
    fill_rope_tables(*layout_.rope, cos, sin);
    write_floats(layout_.rope->cos, cos);
    write_floats(layout_.rope->sin, sin);
  }
}

void LaidOutProgram::write_start(const ParameterStart& start, uint32_t stream) {
  int64_t next = 0;
  for (const Nf4Place& matrix : start.nf4) {
    write_nf4(matrix, [&](int64_t first, std::span<float> numbers) {
      initialize_parameter(numbers, next + first, start, layout_.seed, stream);
    });
    next += matrix.elements;
  }
  if (!start.nf4.empty()) return;
  if (!start.pieces.empty()) return write_start_of_rank(start, stream);
  const int64_t element = dtype_bytes(start.dtype), bytes = start.place.elements * element;
  std::vector<float> rounded;  // f32 needs none: it is made where it is copied from
  // `count` bytes of it from `begin` on, to be written to `offset`.
  const auto write = [&](int64_t offset, int64_t begin, int64_t count) {
    copy_in_pieces(offset, count, [&](int64_t first, std::span<std::byte> piece) {
      const size_t numbers = piece.size() / static_cast<size_t>(element);
      const int64_t from = (begin + first) / element;
      if (start.dtype == SafetensorsDtype::f32) {
        initialize_parameter(std::span(reinterpret_cast<float*>(piece.data()), numbers), from, start,
                             layout_.seed, stream);
        return;
      }
      rounded.resize(numbers);
      initialize_parameter(rounded, from, start, layout_.seed, stream);
      encode_in_parallel(rounded, start.dtype, piece.data());
    });
  };
  const std::vector<SharedBytes> shared = shared_at(layout_.divided, start.place.offset, bytes);
  if (shared.empty()) return write(start.place.offset, 0, bytes);
  const OwnBytes own = own_bytes(shared[0], data_rank());
  if (own.count > 0) write(own.address, own.first, own.count);
}

}  // namespace hydrac::runtime
