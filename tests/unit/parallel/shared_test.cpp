// Tensors that ranks share: how each rank's part starts, and how they come together in a checkpoint.
#include <gtest/gtest.h>

#include <numeric>

#include "runtime/error.h"
#include "runtime/program/shared_bytes.h"
#include "runtime/program/split_parameter.h"
#include "tests/unit/support/memory_program.h"
#include "tests/unit/support/on_ranks.h"

namespace hydrac::runtime {
namespace {

// Two parameters of 1000 and 500 numbers, and as many moments, of which each of 3 ranks has 512: the last
// one's end in padding. Or of one process, which has all. Or of two groups of two ranks that share layers: of
// the first parameter each has the half, and in each group's place the groups share what its ranks have.
enum class Of { one, sharing, groups };
constexpr int kRanks = 3;
constexpr int64_t kFirst = 1000, kSecond = 500, kAll = kFirst + kSecond, kOwn = 512;
constexpr int64_t kMoments = kRanks * kOwn * 4, kState = 2 * kMoments, kBehind = kState + 64;

class TwoParameters final : public MemoryProgram {
 public:
  explicit TwoParameters(Of ranks) : MemoryProgram(layout_of(ranks), kBehind) {}

 private:
  // Shared parameters lie in memory at 0, and their addresses behind it.
  static ProgramLayout layout_of(Of ranks) {
    if (ranks == Of::groups) return layout_of_groups();
    const bool is_shared = ranks == Of::sharing;
    const int64_t at = is_shared ? kBehind : 0;
    ProgramLayout layout;
    layout.state.rng_seed = {kState, 1};
    if (is_shared) layout.state.rank = {kState + 4, 1};
    layout.seed = 7;
    layout.starts = {{{at, kFirst}, ParameterStart::Kind::normal, 0.02},
                     {{at + kFirst * 4, kSecond}, ParameterStart::Kind::uniform, 1}};
    NamedTensor a{.name = "a", .shape = {kFirst}}, b{.name = "b", .shape = {kSecond}},
        m{.name = "m", .shape = {is_shared ? kOwn : kAll}};
    a.address = static_cast<uint64_t>(at);
    b.address = static_cast<uint64_t>(at + kFirst * 4);
    m.address = kMoments;
    layout.parameters = {a, b};
    layout.optimizer_state = {is_shared ? shared_by_ranks(m, {{kAll, kOwn}}) : m};
    if (is_shared) layout.divided = {{kBehind, kMoments, 0, kOwn * 4}};
    return layout;
  }

  static ProgramLayout layout_of_groups() {
    constexpr int64_t half = kFirst / 2, at_second = kBehind + half * 4;
    const SplitParameter halves{2, 1, {{0, kFirst, half}}}, whole{1, 1, {{0, kSecond, kSecond}}};
    ProgramLayout layout;
    layout.tensor_ranks = 2;
    layout.state.rng_seed = {kState, 1};
    layout.state.rank = {kState + 4, 1};
    layout.seed = 7;
    const std::vector<TensorPiece> pieces = pieces_of(halves, 0, kFirst, 0, kBehind, 4);
    layout.starts = {{.kind = ParameterStart::Kind::normal, .number = 0.02, .pieces = pieces},
                     {{at_second, kSecond}, ParameterStart::Kind::uniform, 1}};
    layout.parameters = {{.name = "a", .shape = {kFirst}, .pieces = pieces},
                         {.name = "b", .shape = {kSecond}, .address = static_cast<uint64_t>(at_second)}};
    const NamedTensor m{.name = "m", .shape = {kOwn}, .address = kMoments};
    layout.optimizer_state = {whole_pack(
        shared_by_ranks(m, {{half + kSecond, kOwn}}), kAll,
        {{halves, kFirst, 0, kFirst, 0, half, 1}, {whole, kSecond, kFirst, kSecond, half, kSecond, 1}})};
    layout.divided = {{kBehind, 2 * kOwn * 4, 0, kOwn * 4}};
    return layout;
  }
};

std::vector<NamedTensor> tensors_of(TwoParameters& program) {
  std::vector<NamedTensor> all = program.tensors().parameters;
  all.push_back(program.tensors().optimizer_state[0]);
  return all;
}

std::vector<std::byte> downloaded(TwoParameters& program) {
  std::vector<std::byte> all;
  for (const NamedTensor& tensor : tensors_of(program)) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
    program.download(tensor, bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

// Other bytes than any start.
void upload_others(TwoParameters& program) {
  unsigned char next = 0;
  for (const NamedTensor& tensor : tensors_of(program)) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
    for (std::byte& byte : bytes) byte = std::byte{next = static_cast<unsigned char>(next * 5 + 13)};
    program.upload(tensor, bytes);
  }
}

// What ranks tell of it.
std::vector<std::string> started_and_saved(int count, Of kind) {
  return test::on_ranks(count, [kind](Ranks& ranks, int pipe) {
    TwoParameters whole(Of::one), program(kind);  // here: what forks must not have started OpenMP's threads
    whole.initialize();
    const std::vector<std::byte> started = downloaded(whole);
    upload_others(whole);
    const std::vector<std::byte> uploaded = downloaded(whole);
    program.join(ranks);
    program.initialize();
    std::string text = started == uploaded ? "nothing is uploaded " : "";
    const auto compare = [&](const std::vector<std::byte>& expected) {
      program.with_whole_state([&] { text += downloaded(program) == expected ? "same " : "different "; });
    };
    compare(started);
    upload_others(program);
    compare(uploaded);
    compare(uploaded);
    try {
      downloaded(program);
    } catch (const InputError& error) {
      text += error.what();
    }
    test::tell(pipe, text);
  });
}

TEST(Shared, RanksStartAndSaveAsOneProcess) {
  const std::string alone =
      "a is on no rank whole (parallel.zero); checkpoints, which all ranks save together, hold it";
  EXPECT_EQ(started_and_saved(kRanks, Of::sharing),
            (std::vector<std::string>{"same same same " + alone, alone, alone}));
}

TEST(Shared, GroupsOfRanksThatShareLayersStartAndSaveAsOneProcess) {
  const std::string alone =
      "a is on no rank whole (parallel.tensor); checkpoints, which all ranks save together, hold it";
  EXPECT_EQ(started_and_saved(4, Of::groups),
            (std::vector<std::string>{"same same same " + alone, alone, alone, alone}));
}

TEST(Shared, ARankHasItsPartOfWhatAllHave) {
  // 10 bytes of a tensor from 100 on, 5 behind the start of what ranks have 8 of each.
  const SharedBytes stretch{100, 10, 1000, 8, 5};
  const auto own = [&](int rank) {
    const OwnBytes bytes = own_bytes(stretch, rank);
    return std::vector<int64_t>{bytes.first, bytes.count, bytes.address};
  };
  EXPECT_EQ(own(0), (std::vector<int64_t>{100, 3, 1005}));
  EXPECT_EQ(own(1), (std::vector<int64_t>{103, 7, 1000}));
  EXPECT_EQ(own(2)[1], 0);
}

}  // namespace
}  // namespace hydrac::runtime
