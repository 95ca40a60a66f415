// Training documents from easy to hard, for data.curriculum.
#pragma once
#include <cstdint>
#include <vector>

#include "prepare/mixture.h"
#include "prepare/token_corpus.h"

namespace hydrac::prepare {

// Token ids of documents of a corpus, which must outlive this object. The end-of-text token is not counted.
class DocumentTokens {
 public:
  DocumentTokens(const TokenCorpus& corpus, bool has_end_of_text)
      : corpus_(corpus), has_end_of_text_(has_end_of_text) {}

  uint64_t count(const Stretch& document) const;
  std::vector<int32_t> ids(const Stretch& document) const;

 private:
  const TokenCorpus& corpus_;
  bool has_end_of_text_;
};

// By the number of tokens, short ones first. Equal documents stay in the order that they have.
void sort_by_length(const DocumentTokens& tokens, std::vector<Stretch>& documents);

// Sorts by the mean of -log(frequency) over a document's tokens. A token's frequency is its share of all
// tokens of these documents, repeated documents included. Empty documents come first; ties keep their order.
void sort_by_rarity(const DocumentTokens& tokens, std::vector<Stretch>& documents);

}  // namespace hydrac::prepare
