// A program with a cache whose logits depend on all tokens that the cache holds of a text.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "fake_program.h"
#include "runtime/text/tokenizer/tokenizers.h"
#include "runtime/train/generation/generate.h"

namespace hydrac::runtime {

inline constexpr int64_t kSequences = 3, kContext = 40, kTop = 8, kVocabulary = 256;

// Logits depend on all tokens that the cache holds of a sequence, up to the position.
class CachedProgram final : public FakeProgram {
 public:
  // `pages` of four tokens, or, with 0, room for the whole context of each sequence.
  explicit CachedProgram(int64_t steps_in_flight, int64_t pages = 0)
      : in_flight_(steps_in_flight),
        cache_{
            kSequences, 1, 8, kTop, steps_in_flight, pages, pages > 0 ? 4 : 0, pages > 0 ? kContext / 4 : 0},
        table_(static_cast<size_t>(kSequences * cache_.pages_of_sequence), -1) {
    for (int32_t row = 0; row < kSequences && pages == 0; ++row) table_.push_back(row);
    const int64_t units = pages > 0 ? pages : kSequences;
    tokens_.assign(static_cast<size_t>(units * unit_tokens()), -1);
  }

  bool knows_sums = true;  // else the sums of every fourth row are no numbers
  int64_t top = kTop;      // 0: the program finds no largest logits
  int64_t prompt_tokens = 8;
  size_t most_unfinished_steps = 0;

  ProgramFacts facts() const override {
    ProgramFacts facts = FakeProgram::facts();
    facts.context_length = kContext;
    facts.cache = cache_;
    facts.cache.top = top;
    facts.cache.prompt_tokens = prompt_tokens;
    return facts;
  }

  void write_ports(std::span<const PortBytes> inputs) override {
    for (const auto& [port, bytes] : inputs) {
      const std::span words(reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / 4);
      const auto take = [&](Place place, std::vector<int32_t>& kept) {
        if (port == place) kept.assign(words.begin(), words.end());
      };
      take(ports_.inputs.prompts, prompts_);
      take(ports_.inputs.prompt_rows, prompt_rows_);
      take(ports_.inputs.prompt_ends, prompt_ends_);
      take(ports_.inputs.next_tokens, next_tokens_);
      take(ports_.inputs.next_positions, positions_);
      take(ports_.inputs.uniforms, uniforms_);
      take(ports_.inputs.inverse_temperature, inverse_temperature_);
      take(ports_.inputs.page_table, table_);
    }
    std::vector<int32_t> held;
    if (cache_.pages > 0)
      std::ranges::copy_if(table_, std::back_inserter(held), [](int32_t page) { return page >= 0; });
    std::ranges::sort(held);
    if (std::ranges::adjacent_find(held) != held.end()) throw std::logic_error("a page of two sequences");
  }

  const Ports& ports() const override { return ports_; }
  void compute(Function function, const Batch*) override {
    if (function == Function::prefill) return prefill();
    logits_.clear();
    for (size_t s = 0; s < kSequences; ++s) {
      const auto at = static_cast<size_t>(positions_[s]);
      keep(s, at, next_tokens_[s]);
      const Row row = row_of(held(s, at + 1));
      logits_.insert(logits_.end(), row.begin(), row.end());
    }
  }

  std::span<const std::byte> read_port(Place port) override {
    const Place rows = ports_.results.next_logits;
    if (port == ports_.results.prompt_logits) return std::as_bytes(std::span(prompt_logits_));
    if (port == rows) return std::as_bytes(std::span(logits_));
    require_nothing_unfinished();
    return std::as_bytes(
        std::span(rows_[static_cast<size_t>((port.offset - rows.offset) / 4 / kVocabulary)]));
  }

  void begin_decode(std::span<const PortBytes> inputs, bool goes_on) override {
    if (static_cast<int64_t>(steps_.size()) >= in_flight_) throw std::logic_error("a step too many");
    if (!goes_on) require_nothing_unfinished();
    write_ports(inputs);
    Step& step = steps_.emplace_back();
    most_unfinished_steps = std::max(most_unfinished_steps, steps_.size());
    for (size_t s = 0; s < kSequences; ++s) {
      const auto at = static_cast<size_t>(positions_[s]);
      keep(s, at, goes_on ? chosen_[s] : next_tokens_[s]);
      rows_[s] = row_of(held(s, at + 1));
      const auto number = [&](int32_t word) { return static_cast<double>(std::bit_cast<float>(word)); };
      const double uniform = number(uniforms_[2 * s]) + number(uniforms_[2 * s + 1]);
      step[s] = found_in(rows_[s], number(inverse_temperature_[0]), uniform);
      if (!knows_sums && at % 4 == s) step[s].sum = NAN;
      chosen_[s] = step[s].drawn;
    }
  }

  std::vector<TopLogits> finish_decode() override {
    last_ = steps_.front();
    steps_.pop_front();
    std::vector<TopLogits> top;
    for (const Found& found : last_) top.push_back({found.values, found.ids, found.sum, found.drawn});
    return top;
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

  // Offsets tell ports, and rows of logits, from each other.
  static Ports cached_ports() {
    Ports ports;
    ports.inputs.prompts = {1, 8};
    ports.inputs.prompt_rows = {2, 1};
    ports.inputs.prompt_ends = {3, 1};
    ports.inputs.next_tokens = {4, kSequences};
    ports.inputs.next_positions = {5, kSequences};
    ports.inputs.uniforms = {6, 2 * kSequences};
    ports.inputs.inverse_temperature = {7, 1};
    ports.inputs.vocabulary = {8, 1};
    ports.inputs.page_table = {9, kSequences * kContext / 4};
    ports.results.prompt_logits = {10, kVocabulary};
    ports.results.next_logits = {11, kSequences * kVocabulary};
    ports.results.vocab_size = kVocabulary;
    return ports;
  }

  void prefill() {
    require_nothing_unfinished();
    const auto tokens = std::span(prompts_).first(static_cast<size_t>(prompt_ends_[0]) + 1);
    for (size_t at = 0; at < tokens.size() && prompt_rows_[0] >= 0; ++at)
      keep(static_cast<size_t>(prompt_rows_[0]), at, tokens[at]);
    prompt_logits_ = row_of({tokens.begin(), tokens.end()});
  }

  void require_nothing_unfinished() const {
    if (!steps_.empty()) throw std::logic_error("a step is unfinished");
  }

  int64_t unit_tokens() const { return cache_.pages > 0 ? cache_.page_tokens : kContext; }

  // Where the cache has a sequence's token; nullptr: nowhere.
  int32_t* place(size_t sequence, size_t at) {
    const auto tokens = static_cast<size_t>(unit_tokens());
    const int32_t unit = table_.at(sequence * (table_.size() / kSequences) + at / tokens);
    return unit < 0 ? nullptr : &tokens_.at(static_cast<size_t>(unit) * tokens + at % tokens);
  }
  void keep(size_t sequence, size_t at, int32_t token) {
    if (int32_t* kept = place(sequence, at))
      *kept = token;
    else if (at > 0)
      throw std::logic_error("a token of a text has no page");
  }
  std::vector<int32_t> held(size_t sequence, size_t count) {
    std::vector<int32_t> tokens;
    for (size_t at = 0; at < count; ++at) {
      const int32_t* kept = place(sequence, at);
      tokens.push_back(kept ? *kept : 0);
    }
    return tokens;
  }

  static Row row_of(const std::vector<int32_t>& held) {
    uint64_t seen = held.size();
    for (const int32_t token : held) seen = mix64(seen + static_cast<uint64_t>(token));
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

  const Ports ports_ = cached_ports();
  const int64_t in_flight_;
  const CacheShape cache_;
  std::vector<int32_t> table_;   // [sequences, pages or sequences of each]
  std::vector<int32_t> tokens_;  // by page or sequence
  std::vector<int32_t> prompts_, prompt_rows_, prompt_ends_, next_tokens_, positions_;
  std::vector<int32_t> uniforms_, inverse_temperature_;  // floats' bits
  std::vector<float> logits_, prompt_logits_;
  std::array<int32_t, kSequences> chosen_{};
  std::array<Row, kSequences> rows_;
  std::deque<Step> steps_;
  Step last_;
};

struct Texts {
  std::vector<std::vector<int32_t>> ids;
  std::vector<TextEnd> ends;
  std::vector<std::string> pieces;  // said, one behind the other
  GenerateCounts counts = {};

  bool operator==(const Texts& other) const {
    return ids == other.ids && ends == other.ends && pieces == other.pieces;
  }
};

inline std::vector<TextRequest> some_requests() {
  return {{{'a', 'b'}, 3}, {{'x'}, 4}, {{'c', 'd', 'e'}, 5}, {{'q'}, 6}, {{'a'}, 7}};
}

inline Texts texts_of(CachedProgram& program, const GenerateOptions& options,
                      const Tokenizer& tokenizer = *make_byte_tokenizer()) {
  const std::vector<TextRequest> requests = some_requests();
  Texts texts{std::vector<std::vector<int32_t>>(requests.size()), std::vector<TextEnd>(requests.size()),
              std::vector<std::string>(requests.size())};
  TextEvents events;
  events.on_text = [&](size_t request, std::string_view piece) { texts.pieces[request] += piece; };
  events.on_end = [&](size_t request, const Reply& reply) {
    texts.ids[request] = reply.ids;
    texts.ends[request] = reply.end;
  };
  texts.counts = generate_batch(program, tokenizer, requests, options, events);
  return texts;
}

// Bytes, one more of which ends a text.
class BytesWithEnd final : public Tokenizer {
 public:
  explicit BytesWithEnd(int32_t end) : bytes_(make_byte_tokenizer()), ends_(bytes_->end_tokens()) {
    ends_.add(end);
  }
  std::string_view token_bytes(int32_t id) const override { return bytes_->token_bytes(id); }
  int64_t vocab_size() const override { return bytes_->vocab_size(); }
  const EndTokens& end_tokens() const override { return ends_; }
  bool is_special(int32_t id) const override { return bytes_->is_special(id); }
  std::string_view name() const override { return bytes_->name(); }
  std::string to_json() const override { return bytes_->to_json(); }

 private:
  void do_encode(std::string_view text, std::vector<int32_t>& out, const ByteProgress&) const override {
    bytes_->encode_to(text, out);
  }
  uint64_t fingerprint_bits() const override { return 0; }

  std::unique_ptr<Tokenizer> bytes_;
  EndTokens ends_;
};

// The same where two of these texts end early: at the third token of the second, and at the text of the
// fourth one of the third.
struct EarlyEnds {
  EarlyEnds(const GenerateOptions& from, const Texts& texts) : options(from), tokenizer(texts.ids[1].at(2)) {
    options.stop = {std::string(1, static_cast<char>(texts.ids[2].at(3)))};
  }
  GenerateOptions options;
  BytesWithEnd tokenizer;
};

}  // namespace hydrac::runtime
