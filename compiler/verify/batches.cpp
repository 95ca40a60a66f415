#include "verify/batches.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/data/sequence_warmup.h"

namespace hydrac::verify {

namespace {

// Tokens of a sequence in a step before which `done` others were.
int64_t sequence_len(const spec::Spec& spec, int64_t done) {
  const auto& t = spec.train;
  if (!spec::warms_sequences_up(spec)) return t.sequence_len;
  return runtime::SequenceWarmup{t.sequence_len, t.sequence_warmup.start, t.sequence_warmup.steps,
                                 t.global_batch_size}
      .length_after(done);
}

// About sixteen documents a row where the data has several, cut every `stretch` tokens.
void add_documents(const spec::Spec& spec, int64_t stretch, std::mt19937_64& random, runtime::Batch& batch) {
  const int64_t length = spec.train.sequence_len;
  const auto most = static_cast<uint64_t>(std::max<int64_t>(2, length / 8));
  for (int64_t row = 0; row < spec.train.micro_batch_size; ++row) {
    for (int64_t begin = 0, end = 0; begin < length; begin = end) {
      end = std::min(length, begin / stretch * stretch + stretch);
      if (spec.data.document_mask) end = std::min(end, begin + 1 + static_cast<int64_t>(random() % most));
      for (int64_t i = begin; i < end; ++i) {
        batch.documents.insert(batch.documents.end(),
                               {static_cast<int32_t>(begin), static_cast<int32_t>(end)});
        batch.positions.push_back(static_cast<int32_t>(i - begin));
      }
    }
  }
}

// Pairs of neighbouring documents, each of which has a target at least. References are near what an untrained
// model would say.
template <class Number>
void add_pairs(const spec::Spec& spec, const Number& number, runtime::Batch& batch) {
  const int64_t length = spec.train.sequence_len, most = spec::pairs_of_sequence(spec);
  const double of_token = -std::log(static_cast<double>(spec.model.vocab_size));
  batch.segments.assign(batch.targets.size(), -1);
  for (int64_t row = 0; row < spec.train.micro_batch_size; ++row) {
    const auto at = [&](int64_t i) { return static_cast<size_t>(row * length + i); };
    const auto end_of = [&](int64_t i) { return int64_t{batch.documents[2 * at(i) + 1]}; };
    std::vector<int64_t> ends;
    for (int64_t begin = 0; begin < length; begin = ends.back()) ends.push_back(end_of(begin));
    const int64_t pairs = std::min(std::ssize(ends) / 2, most);
    for (int64_t p = 0; p < most; ++p) {
      batch.pairs.push_back(p < pairs ? row * most + p : -1);
      for (int64_t text = 0; text < 2; ++text) {
        int64_t tokens = 0;
        const auto segment = static_cast<size_t>(2 * p + text);
        const int64_t end = p < pairs ? ends[segment] : 0,
                      begin = p < pairs && segment > 0 ? ends[segment - 1] : 0;
        for (int64_t i = begin; i < end; ++i) {
          int32_t& target = batch.targets[at(i)];
          const bool is_ignored = target == runtime::kIgnoredTarget;
          if (is_ignored && i > begin) continue;
          if (is_ignored) target = 0;
          batch.target_count += is_ignored;
          batch.segments[at(i)] = static_cast<int32_t>(segment);
          ++tokens;
        }
        (text == 0 ? batch.chosen_reference : batch.rejected_reference)
            .push_back(static_cast<float>(of_token * static_cast<double>(tokens)) + number());
      }
    }
    batch.pair_count += pairs;
  }
}

}  // namespace

Batches random_batches(const spec::Spec& spec, int64_t steps, uint64_t seed, int64_t before) {
  std::mt19937_64 random(seed);
  const spec::Model& m = spec.model;
  const int64_t positions = spec.train.micro_batch_size * spec.train.sequence_len;
  auto below = [&](int64_t n) { return static_cast<int32_t>(random() % static_cast<uint64_t>(n)); };
  auto number = [&] {
    return static_cast<float>(static_cast<double>(random() >> 11) / 4503599627370496.0 - 1);
  };
  Batches batches(static_cast<size_t>(steps));
  for (auto& step : batches) {
    const int64_t stretch = sequence_len(spec, before++);
    step.resize(static_cast<size_t>(spec::micro_batches_of_step(spec)));
    for (runtime::Batch& batch : step) {
      for (int64_t i = 0; i < positions; ++i) {
        if (m.input == spec::Input::tokens)
          batch.tokens.push_back(below(m.vocab_size));
        else
          for (int64_t f = 0; f < m.num_features; ++f) batch.features.push_back(number());
        const bool counts = i == 0 || below(8) != 0;
        if (m.head == spec::Head::regression) {
          for (int64_t o = 0; o < m.num_labels; ++o) {
            const bool given = i == 0 || below(8) != 0;
            batch.float_targets.push_back(given ? number() : NAN);
            batch.target_count += given;
          }
          continue;
        }
        batch.targets.push_back(
            counts ? below(m.head == spec::Head::language_model ? m.vocab_size : m.num_labels)
                   : runtime::kIgnoredTarget);
        batch.target_count += counts;
      }
      if (spec::reads_documents(spec)) add_documents(spec, stretch, random, batch);
      if (spec::learns_preferences(spec)) add_pairs(spec, number, batch);
      if (!spec::samples_replies(spec)) continue;
      for (int64_t i = 0; i < positions; ++i) batch.weights.push_back(number());
    }
  }
  return batches;
}

float inverse_count(const std::vector<runtime::Batch>& step) {
  int64_t count = 0;
  for (const runtime::Batch& batch : step) count += batch.loss_terms();
  return 1.0f / static_cast<float>(count);
}

}  // namespace hydrac::verify
