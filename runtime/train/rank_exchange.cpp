#include "runtime/train/rank_exchange.h"

#include <algorithm>

#include "runtime/train/generation/reward_command.h"

namespace hydrac::runtime {

namespace {

constexpr size_t kPiece = size_t{1} << 19;  // bytes that ranks exchange at once

}  // namespace

// Pieces, until every rank has come to its end: the same number on all of them.
std::string joined(Ranks* ranks, const std::string& own) {
  if (!ranks) return own;
  std::vector<std::string> all(static_cast<size_t>(ranks->size()));
  for (size_t first = 0, longest = kPiece; longest == kPiece; first += kPiece) {
    const std::vector<std::string> pieces = ranks->gather(own.substr(std::min(first, own.size()), kPiece));
    longest = 0;
    for (size_t rank = 0; rank < pieces.size(); ++rank) {
      all[rank] += pieces[rank];
      longest = std::max(longest, pieces[rank].size());
    }
  }
  std::string text;
  for (const std::string& of_rank : all) text += of_rank;
  return text;
}

std::vector<double> found_by_rank_0(Ranks* ranks, const std::function<std::vector<double>()>& find) {
  if (!ranks) return find();
  std::vector<double> numbers;
  std::string problem;
  if (ranks->leads()) {
    try {
      numbers = find();
    } catch (const RewardError& error) {
      problem = error.what();
    }
  }
  problem = ranks->share(problem);
  if (!problem.empty()) throw RewardError(problem);
  return joined<double>(ranks, numbers);
}

}  // namespace hydrac::runtime
