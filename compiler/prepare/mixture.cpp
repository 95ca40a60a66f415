#include "prepare/mixture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/data/hash.h"

namespace hydrac::prepare {

namespace {

enum class Draw : uint64_t { validation = 1, part = 2, order = 3 };

// The stretches in a random order that depends on the seed, the purpose, and where each begins. Equal
// stretches, which are repetitions, keep their order.
std::vector<Stretch> shuffled(const std::vector<Stretch>& list, uint64_t seed, Draw draw) {
  std::vector<std::pair<uint64_t, size_t>> keys;
  keys.reserve(list.size());
  uint64_t copy = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    copy = i > 0 && list[i].begin < list[i - 1].begin ? copy + 1 : copy;  // the next repetition or source
    const uint64_t key =
        runtime::Hash64().add(seed).add(static_cast<uint64_t>(draw)).add(list[i].begin).add(copy).value();
    keys.emplace_back(key, i);
  }
  std::ranges::sort(keys);
  std::vector<Stretch> out;
  out.reserve(list.size());
  for (const auto& [key, i] : keys) out.push_back(list[i]);
  return out;
}

uint64_t tokens_of(const std::vector<Stretch>& list) {
  uint64_t sum = 0;
  for (const Stretch& stretch : list) sum += stretch.tokens();
  return sum;
}

void sort_by_place(std::vector<Stretch>& list) {
  std::ranges::sort(list, {}, &Stretch::begin);
}

class Mixer {
 public:
  explicit Mixer(const MixtureOptions& options) : options_(options) {}

  // Takes what validates out of `documents`, which stay in the order of places.
  std::vector<Stretch> take_validation(std::vector<Stretch>& documents) const {
    uint64_t left =
        static_cast<uint64_t>(std::floor(static_cast<double>(tokens_of(documents)) * options_.val_fraction));
    const uint64_t least = options_.has_end_of_text ? 2 : 1;  // a token, and the end that is there
    std::vector<Stretch> val, rest;
    for (const Stretch& document : shuffled(documents, options_.seed, Draw::validation)) {
      if (document.tokens() <= left) {
        left -= document.tokens();
        val.push_back(document);
      } else if (left >= least) {
        const uint64_t middle = document.end - left;
        val.push_back({middle, document.end, false});
        rest.push_back({document.begin, middle, options_.has_end_of_text});
        left = 0;
      } else {
        left = 0;
        rest.push_back(document);
      }
    }
    sort_by_place(rest);
    documents = std::move(rest);
    return val;
  }

  // `fraction` of the tokens, of 0 to 1.
  std::vector<Stretch> part_of(const std::vector<Stretch>& documents, double fraction) const {
    const uint64_t end_token = options_.has_end_of_text;
    uint64_t left = static_cast<uint64_t>(std::floor(static_cast<double>(tokens_of(documents)) * fraction));
    std::vector<Stretch> part;
    for (const Stretch& document : shuffled(documents, options_.seed, Draw::part)) {
      if (document.tokens() <= left) {
        left -= document.tokens();
        part.push_back(document);
        continue;
      }
      if (left > end_token)
        part.push_back({document.begin, document.begin + left - end_token, end_token != 0});
      break;
    }
    sort_by_place(part);
    return part;
  }

  std::vector<Stretch> repeated(const std::vector<Stretch>& documents, double weight) const {
    const double whole = std::floor(weight);
    std::vector<Stretch> all;
    for (int64_t copy = 0; copy < static_cast<int64_t>(whole); ++copy)
      all.insert(all.end(), documents.begin(), documents.end());
    if (weight > whole) {
      const std::vector<Stretch> part = part_of(documents, weight - whole);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  std::vector<Stretch> in_order(const std::vector<Stretch>& list) const {
    return shuffled(list, options_.seed, Draw::order);
  }

 private:
  const MixtureOptions& options_;
};

void add_to(std::vector<Stretch>& all, const std::vector<Stretch>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

Mixture mix(const std::vector<uint64_t>& ends, const std::vector<uint32_t>& source_of,
            const MixtureOptions& options) {
  std::vector<std::vector<Stretch>> sources(options.weights.size());
  for (size_t i = 0; i < ends.size(); ++i)
    sources[source_of[i]].push_back({i == 0 ? 0 : ends[i - 1], ends[i], false});
  const Mixer mixer(options);
  Mixture mixture;
  for (size_t source = 0; source < sources.size(); ++source) {
    std::vector<Stretch>& documents = sources[source];
    const std::vector<Stretch> val = mixer.take_validation(documents);
    const std::vector<Stretch> train = mixer.repeated(documents, options.weights[source]);
    mixture.shares.push_back({tokens_of(train), tokens_of(val)});
    add_to(mixture.train, train);
    add_to(mixture.val, val);
    std::vector<Stretch>().swap(documents);
  }
  mixture.train = mixer.in_order(mixture.train);
  mixture.val = mixer.in_order(mixture.val);
  return mixture;
}

}  // namespace hydrac::prepare
