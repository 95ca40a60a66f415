// A program's work with its ranks: collectives on memory of this process, and tensors that no rank has whole.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/error.h"
#include "runtime/parallel/cores.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/laid_out_program.h"
#include "runtime/program/shared_bytes.h"

namespace hydrac::runtime {

Ranks& LaidOutProgram::ranks() const {
  if (!ranks_) throw RunError("a program of several ranks (parallel) runs in one process");
  return *ranks_;
}

void LaidOutProgram::join(Ranks& ranks) {
  ranks_ = &ranks;
  ranks.share_layers(static_cast<int>(layout_.tensor_ranks));
  layout_.inputs.first_own_id = layout_.inputs.own_ids * tensor_rank();
}

std::string LaidOutProgram::device() const {
  return fmt::format("{} cores", usable_cores());
}

void LaidOutProgram::run(const Collective& collective, std::span<const SharedFloats> tensors) const {
  for (const SharedFloats& tensor : tensors) ranks().run(collective, tensor);
}

bool LaidOutProgram::shares_state() const {
  const auto is_shared = [](const NamedTensor& tensor) { return !tensor.is_whole(); };
  return std::ranges::any_of(layout_.optimizer_state, is_shared) ||
         std::ranges::any_of(layout_.parameters, is_shared);
}

// Rank 0 asks for tensors by name; the others send what they have of them until it asks for none.
void LaidOutProgram::with_whole_state(const std::function<void()>& work) {
  if (!shares_state()) return work();
  if (ranks().leads()) {
    state_is_whole_ = true;
    work();
    state_is_whole_ = false;
    ranks().share("");
    return;
  }
  std::vector<NamedTensor> tensors = layout_.parameters;
  tensors.insert(tensors.end(), layout_.optimizer_state.begin(), layout_.optimizer_state.end());
  for (std::string name; !(name = ranks().share("")).empty();)
    collect(*std::ranges::find(tensors, name, &NamedTensor::name), {});
}

// Collects every rank's stretches of a tensor into `to` of rank 0. Each sends as many bytes as the largest
// part; ranks at other places of a tensor group have the same.
void LaidOutProgram::collect(const NamedTensor& tensor, std::span<std::byte> to) {
  for (const TensorPiece& piece : tensor.pieces) collect_piece(piece, to);
  std::vector<std::byte> own;
  const int groups = ranks().size(RankGroup::data), sharing = ranks().size(RankGroup::tensor);
  for (const SharedBytes& stretch : tensor.shared) {
    int64_t most = 0;
    for (int group = 0; group < groups; ++group) most = std::max(most, own_bytes(stretch, group).count);
    own.resize(static_cast<size_t>(most));
    const OwnBytes mine = own_bytes(stretch, data_rank());
    if (mine.count > 0) copy_out(mine.address, std::span(own).first(static_cast<size_t>(mine.count)));
    ranks().collect(own, [&](int rank, size_t first, std::span<const std::byte> bytes) {
      if (rank % sharing != 0) return;
      const OwnBytes theirs = own_bytes(stretch, rank / sharing);
      const int64_t begin = static_cast<int64_t>(first);
      const int64_t count = std::min(static_cast<int64_t>(bytes.size()), theirs.count - begin);
      if (count > 0) std::copy_n(bytes.begin(), count, to.begin() + theirs.first + begin);
    });
  }
}

// This rank's parts of tensors; sharded ones stretch by stretch.
std::vector<NamedTensor> LaidOutProgram::own_tensors(const std::vector<NamedTensor>& tensors) const {
  std::vector<NamedTensor> own;
  for (const NamedTensor& tensor : tensors) {
    if (tensor.is_whole()) own.push_back(tensor);
    const auto add = [&](const OwnBytes& mine) {
      own.push_back({.name = tensor.name,
                     .shape = {mine.count / dtype_bytes(tensor.dtype)},
                     .dtype = tensor.dtype,
                     .address = static_cast<uint64_t>(mine.address)});
    };
    for (const TensorPiece& piece : tensor.pieces) add(own_bytes(piece, data_rank()));
    for (const SharedBytes& stretch : tensor.shared) add(own_bytes(stretch, data_rank()));
  }
  return own;
}

}  // namespace hydrac::runtime
