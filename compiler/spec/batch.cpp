#include "spec/batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "diag/suggest.h"
#include "spec/checks/divisors.h"
#include "spec/keys/key_table.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

constexpr std::string_view kGlobal = "train.global_batch_size", kTokens = "train.global_batch_tokens",
                           kMicro = "train.micro_batch_size", kSteps = "train.gradient_accumulation_steps",
                           kSequence = "train.sequence_len", kRanks = "parallel.data";

int64_t most_of(std::string_view key) {
  return static_cast<int64_t>(find_key(key)->rule.high);
}

class BatchResolver {
 public:
  explicit BatchResolver(Draft& draft) : draft_(draft), spec_(draft.spec), train_(draft.spec.train) {}

  void resolve() {
    const bool has_global = is_written(kGlobal), has_tokens = is_written(kTokens);
    if (has_global && has_tokens) {
      draft_.report(Kind::global_batch_twice, {kTokens},
                    fmt::format("{} and {} both say how large a step's batch is", kGlobal, kTokens),
                    "remove one of them");
      return give_up();
    }
    if (!draft_.usable({kGlobal, kTokens, kRanks})) return give_up();
    if (has_tokens && !tokens_to_sequences()) return give_up();
    if (has_global || has_tokens)
      split_global_batch();
    else
      multiply();
  }

 private:
  int64_t ranks() const { return spec_.parallel.data; }
  std::string of_ranks() const {
    return ranks() == 1 ? "" : fmt::format(" times parallel.data ({})", ranks());
  }
  bool is_written(std::string_view key) const { return spec_.is_set(key); }
  bool micro_is_given() const { return is_written(kMicro) && !train_.micro_batch_size.automatic(); }

  // Nothing is checked against keys that cannot be told.
  void give_up() {
    if (!micro_is_given()) draft_.broken.emplace(kMicro);
    if (!is_written(kSteps)) draft_.broken.emplace(kSteps);
    draft_.broken.emplace(kGlobal);
  }

  bool tokens_to_sequences() {
    if (!draft_.usable({kSequence})) return false;
    const int64_t length = train_.sequence_len, tokens = train_.global_batch_tokens;
    if (tokens % length == 0) {
      train_.global_batch_size = tokens / length;
      return true;
    }
    const int64_t below = tokens / length * length;
    draft_.report(
        Kind::batch_indivisible, {kTokens},
        fmt::format("global_batch_tokens ({}) is no multiple of sequence_len ({})", tokens, length),
        below > 0 ? fmt::format("write {} or {}", below, below + length) : fmt::format("write {}", length));
    return false;
  }

  // Without a global batch: the micro-batch is given, and so may be the accumulation.
  void multiply() {
    if (!is_written(kSteps)) {
      train_.gradient_accumulation_steps = 1;
    } else if (draft_.usable({kSteps}) && train_.gradient_accumulation_steps == 1) {
      draft_.usual.emplace(kSteps);
    }
    if (!draft_.usable({kMicro, kSteps})) return draft_.broken.emplace(kGlobal), void();
    if (!train_.micro_batch_size.automatic()) {
      train_.global_batch_size = train_.micro_batch_size * train_.gradient_accumulation_steps * ranks();
      return;
    }
    draft_.report(Kind::auto_needs_global_batch, {kMicro},
                  "micro_batch_size: auto needs to know the batch of a whole step",
                  "add global_batch_size (sequences) or global_batch_tokens, which results depend on");
    give_up();
  }

  void split_global_batch() {
    if (!draft_.usable({kMicro, kSteps})) return give_up();
    const bool micro = micro_is_given(), steps = is_written(kSteps);
    const int64_t whole = train_.global_batch_size;
    if (!(micro && steps) && !divides(whole, kRanks, ranks())) return;
    const int64_t global = whole / ranks();
    if (micro && steps) {
      check_product(whole);
    } else if (micro) {
      if (divides(global, kMicro, train_.micro_batch_size)) set_steps(global / train_.micro_batch_size);
    } else if (steps) {
      if (divides(global, kSteps, train_.gradient_accumulation_steps))
        set_micro(global / train_.gradient_accumulation_steps);
    } else {
      train_.micro_batch_size = {};
      train_.gradient_accumulation_steps = 0;
      if (global / most_of(kSteps) > most_of(kMicro)) too_large(global);
    }
  }

  void check_product(int64_t global) {
    const int64_t micro = train_.micro_batch_size, steps = train_.gradient_accumulation_steps;
    if (micro * steps * ranks() == global) return;
    draft_.report(Kind::batch_contradicts, {kSteps, kMicro},
                  fmt::format("micro_batch_size ({}) times gradient_accumulation_steps ({}){} is {}, and the "
                              "global batch is {} sequences",
                              micro, steps, of_ranks(), micro * steps * ranks(), global),
                  "remove gradient_accumulation_steps, which follows from the other two");
    give_up();
  }

  bool divides(int64_t global, std::string_view key, int64_t part) {
    if (global % part == 0) return true;
    draft_.report(Kind::batch_indivisible, {key},
                  fmt::format("{} ({}) must divide the global batch ({} sequences{})",
                              key == kRanks ? key : find_key(key)->name, part, global,
                              key == kRanks || ranks() == 1 ? "" : " a rank"),
                  fmt::format("{} would fit", diag::one_of(divisors_near(global, part))));
    give_up();
    return false;
  }

  void set_steps(int64_t steps) {
    train_.gradient_accumulation_steps = steps;
    if (steps > most_of(kSteps)) too_large(train_.global_batch_size);
  }
  void set_micro(int64_t size) {
    train_.micro_batch_size = size;
    if (size > most_of(kMicro)) too_large(train_.global_batch_size);
  }
  void too_large(int64_t global) {
    draft_.report(
        Kind::out_of_range, {kGlobal, kTokens},
        fmt::format("a global batch of {} sequences takes more than {} micro-batches, or more than {} "
                    "sequences in one",
                    global, most_of(kSteps), most_of(kMicro)));
    give_up();
  }

  Draft& draft_;
  Spec& spec_;
  SpecKeys::Train& train_;
};

}  // namespace

void resolve_batch(Draft& draft) {
  BatchResolver(draft).resolve();
  draft.spec.train.global_batch_tokens = 0;
}

std::vector<int64_t> micro_batch_sizes(const SpecKeys& spec) {
  const int64_t global = spec.train.global_batch_size / spec.parallel.data;
  std::vector<int64_t> sizes = divisors(global);
  std::erase_if(sizes,
                [&](int64_t size) { return size > most_of(kMicro) || global / size > most_of(kSteps); });
  return sizes;
}

void train_in_one_process(SpecKeys& spec) {
  spec.train.gradient_accumulation_steps *= spec.parallel.data;
  spec.parallel.data = spec.parallel.tensor = 1;
  spec.parallel.zero = 0;
}

void set_micro_batch(SpecKeys& spec, int64_t size) {
  spec.train.micro_batch_size = size;
  spec.train.gradient_accumulation_steps = spec.train.global_batch_size / spec.parallel.data / size;
}

}  // namespace hydrac::spec
