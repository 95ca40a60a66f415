// The tokens that train and those that validate, in their order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrac::prepare {

// A stretch of the corpus's tokens.
struct Stretch {
  uint64_t begin, end;  // tokens
  bool add_end;         // an end-of-text token follows: of a document whose end is elsewhere

  uint64_t tokens() const { return end - begin + add_end; }
};

struct SourceShare {
  uint64_t train_tokens = 0, val_tokens = 0;
};

struct Mixture {
  std::vector<Stretch> train, val;  // documents in an order drawn by the seed
  std::vector<SourceShare> shares;  // by source; training tokens with their repetitions
};

struct MixtureOptions {
  std::vector<double> weights;  // by source, more than 0
  double val_fraction = 0;
  bool has_end_of_text = false;
  uint64_t seed = 0;
};

// `ends`: the end of each document, in tokens. `source_of`: the source of each document. From each source
// floor(tokens * val_fraction) tokens validate: whole documents, drawn by the seed, and the end of one more,
// so that the number is exact (one less if that end would be only an end-of-text token). The rest trains:
// floor(weight) times as a whole, and then the fraction of the weight as a share of its tokens, again drawn
// documents and the beginning of one more. A document that is cut gets an end-of-text token at both ends.
Mixture mix(const std::vector<uint64_t>& ends, const std::vector<uint32_t>& source_of,
            const MixtureOptions& options);

}  // namespace hydrac::prepare
