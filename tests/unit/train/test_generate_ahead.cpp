// Generation with a cache: a program that takes a step while the one before is not read gives the same texts
// as one that does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>

#include "fake_program.h"
#include "runtime/text/tokenizers.h"
#include "runtime/train/generate.h"

namespace hydrac::runtime {
namespace {

constexpr int64_t kSequences = 3, kContext = 40, kTop = 8, kVocabulary = 256;

// Logits depend on all tokens that the cache holds of a sequence, up to the position.
class CachedProgram final : public FakeProgram {
 public:
  explicit CachedProgram(int64_t steps_in_flight) : in_flight_(steps_in_flight) {}

  bool knows_sums = true;  // else the sums of every fourth row are no numbers
  size_t most_unfinished_steps = 0;

  CacheShape cache_shape() const override { return {kSequences, 1, 8, kTop, in_flight_}; }
  int64_t context_length() const override { return kContext; }

  LogitRows prefill(std::span<const Prompt> prompts) override {
    require_nothing_unfinished();
    auto& held = held_[static_cast<size_t>(prompts[0].sequence)];
    held.assign(kContext, -1);
    std::ranges::copy(prompts[0].tokens, held.begin());
    rows_[0] = row_of(held, prompts[0].tokens.size());
    return {rows_[0].data(), kVocabulary, kVocabulary};
  }

  void begin_decode_top(const Tokens& tokens, std::span<const int32_t> positions,
                        const TopRequest& request) override {
    if (static_cast<int64_t>(steps_.size()) >= in_flight_) throw std::logic_error("a step too many");
    if (tokens) require_nothing_unfinished();
    Step& step = steps_.emplace_back();
    most_unfinished_steps = std::max(most_unfinished_steps, steps_.size());
    for (size_t s = 0; s < kSequences; ++s) {
      const auto at = static_cast<size_t>(positions[s]);
      held_[s].resize(kContext, -1);
      held_[s].at(at) = tokens ? (*tokens)[s] : chosen_[s];
      rows_[s] = row_of(held_[s], at + 1);
      const double uniform = request.uniforms.empty() ? -1 : request.uniforms[s];
      step[s] = found_in(rows_[s], 1 / request.temperature, uniform);
      if (!knows_sums && at % 4 == s) step[s].sum = NAN;
      chosen_[s] = step[s].drawn;
    }
  }

  std::vector<TopLogits> finish_decode_top() override {
    last_ = steps_.front();
    steps_.pop_front();
    std::vector<TopLogits> top;
    for (const Found& found : last_) top.push_back({found.values, found.ids, found.sum, found.drawn});
    return top;
  }

  std::span<const float> decoded_logits(int64_t sequence) override {
    require_nothing_unfinished();
    return rows_[static_cast<size_t>(sequence)];
  }

 private:
  using Row = std::vector<float>;
  struct Found {
    std::vector<float> values;
    std::vector<int32_t> ids;
    double sum = 0;
    int32_t drawn = -1;
  };
  using Step = std::array<Found, kSequences>;

  void require_nothing_unfinished() const {
    if (!steps_.empty()) throw std::logic_error("a step is unfinished");
  }

  static Row row_of(std::span<const int32_t> held, size_t count) {
    uint64_t seen = count;
    for (const int32_t token : held.first(count)) seen = mix64(seen + static_cast<uint64_t>(token));
    Row row(kVocabulary);
    for (size_t id = 0; id < row.size(); ++id)
      row[id] = static_cast<float>(mix64(seen * 512 + id) % 1000) / 100;
    return row;
  }

  static Found found_in(const Row& row, double inverse_temperature, double uniform) {
    Found found;
    std::vector<int32_t> ids(row.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    found.ids.assign(ids.begin(), ids.begin() + kTop);
    for (const int32_t id : found.ids) found.values.push_back(row[id]);
    const auto weight = [&](size_t id) {
      return std::exp((row[id] - found.values[0]) * inverse_temperature);
    };
    for (size_t id = 0; id < row.size(); ++id) found.sum += weight(id);
    found.drawn = found.ids[0];
    double left = uniform * found.sum;
    for (size_t id = 0; uniform >= 0 && left >= 0 && id < row.size(); ++id) {
      found.drawn = static_cast<int32_t>(id);
      left -= weight(id);
    }
    return found;
  }

  const int64_t in_flight_;
  std::vector<int32_t> held_[kSequences];
  std::array<int32_t, kSequences> chosen_{};
  std::array<Row, kSequences> rows_;
  std::deque<Step> steps_;
  Step last_;
};

struct Texts {
  std::vector<std::vector<int32_t>> ids;
  std::vector<TextEnd> ends;
  bool operator==(const Texts&) const = default;
};

Texts texts_of(CachedProgram& program, const GenerateOptions& options) {
  const std::vector<TextRequest> requests = {
      {{'a', 'b'}, 3}, {{'x'}, 4}, {{'c', 'd', 'e'}, 5}, {{'q'}, 6}, {{'a'}, 7}};
  Texts texts{std::vector<std::vector<int32_t>>(requests.size()), std::vector<TextEnd>(requests.size())};
  TextEvents events;
  events.on_end = [&](size_t request, const Reply& reply) {
    texts.ids[request] = reply.ids;
    texts.ends[request] = reply.end;
  };
  generate_batch(program, *make_byte_tokenizer(), requests, options, events);
  return texts;
}

struct Case {
  const char* name;
  SampleOptions sampling;
  int64_t max_new_tokens = 20;
  bool knows_sums = true;
  size_t most_unfinished = 2;
};

class GenerateAhead : public testing::TestWithParam<Case> {};

TEST_P(GenerateAhead, GivesTheSameTexts) {
  GenerateOptions options{"", GetParam().max_new_tokens, {}, GetParam().sampling};
  CachedProgram one(1), two(2);
  one.knows_sums = two.knows_sums = GetParam().knows_sums;
  const Texts expected = texts_of(one, options);
  EXPECT_EQ(texts_of(two, options), expected);
  EXPECT_EQ(two.most_unfinished_steps, GetParam().most_unfinished);
  // One text's third token ends texts, and the fourth of another one is what none may hold.
  options.end_tokens = {expected.ids[1].at(2)};
  options.stop = {std::string(1, static_cast<char>(expected.ids[2].at(3)))};
  const Texts ended = texts_of(one, options);
  EXPECT_EQ(ended.ends[1], TextEnd::end_of_text);
  EXPECT_EQ(texts_of(two, options), ended);
}

INSTANTIATE_TEST_SUITE_P(Samplings, GenerateAhead,
                         testing::Values(Case{"greedy", {.temperature = 0}},
                                         Case{"temperature", {.temperature = 0.7}},
                                         Case{"pastTheContext", {.temperature = 0}, 60},
                                         Case{"undecidedRows", {.temperature = 0.7}, 20, false},
                                         Case{"likeliestThree", {.temperature = 1, .top_k = 3}, 20, true, 1}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hydrac::runtime
