#include "specialize/proposals.h"

#include <algorithm>

namespace hydrac::specialize {

void Proposals::propose(const Place& place, char kind, std::vector<Edit> edits, const std::string& witness) {
  std::sort(edits.begin(), edits.end());
  auto [found, is_new] = proposals_.try_emplace({place, kind}, Proposal{edits, witness});
  if (!is_new && (found->second.edits != edits || found->second.witness != witness))
    found->second.disputed = true;
}

void Proposals::add(const Proposals& other) {
  for (const auto& [key, proposal] : other.proposals_) {
    auto [found, is_new] = proposals_.try_emplace(key, proposal);
    // An expression in parentheses has other edits, and each entry keeps its own.
    const bool differs = found->second.edits != proposal.edits ||
                         (key.second == kParentheses && found->second.witness != proposal.witness);
    if (proposal.disputed || differs) found->second.disputed = true;
  }
}

std::map<int, std::vector<Edit>> Proposals::agreed() const {
  std::map<int, std::vector<Edit>> edits;
  for (const auto& [key, proposal] : proposals_) {
    if (proposal.disputed) continue;
    std::vector<Edit>& all = edits[key.first.file];
    all.insert(all.end(), proposal.edits.begin(), proposal.edits.end());
  }
  return edits;
}

}  // namespace hydrac::specialize
