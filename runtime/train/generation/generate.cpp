#include "runtime/train/generation/generate.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "runtime/error.h"
#include "runtime/log/monotonic.h"
#include "runtime/log/signal.h"
#include "runtime/train/generation/next_logits.h"
#include "runtime/train/generation/text_rows.h"

namespace hydrac::runtime {

namespace {

int32_t first_token(const Tokenizer& tokenizer) {
  if (const auto end = tokenizer.end_of_text()) return *end;
  try {
    return tokenizer.encode("\n").at(0);
  } catch (const InputError&) {
    return 0;  // a character vocabulary of a corpus without line breaks
  }
}

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct Drawn {
  int32_t id = 0;
  double log_probability = kUnknown;
};

double log_probability(std::span<const float> logits, int32_t id) {
  const float largest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return static_cast<double>(logits[static_cast<size_t>(id)]) - largest - std::log(sum);
}

// `top.sum` is of the whole row, at temperature 1.
double log_probability(const TopLogits& top, int32_t id) {
  const auto found = std::ranges::find(top.ids, id);
  if (found == top.ids.end()) return kUnknown;
  const auto at = static_cast<size_t>(found - top.ids.begin());
  return static_cast<double>(top.values[at]) - top.values[0] - std::log(top.sum);
}

class BatchGenerator {
 public:
  BatchGenerator(StepProgram& program, const Tokenizer& tokenizer, std::span<const TextRequest> requests,
                 const GenerateOptions& options, const TextEvents& events)
      : logits_(program),
        tokenizer_(tokenizer),
        requests_(requests),
        options_(options),
        events_(events),
        cache_(program.facts().cache),
        context_(static_cast<size_t>(program.facts().context_length)),
        texts_(cache_, context_, requests, tokenizer, options) {}

  GenerateCounts run() {
    for (const TextRequest& request : requests_)
      counts_.prompt_tokens += static_cast<int64_t>(request.prompt.size());
    while (take_up_texts()) {
      timed(counts_.prefill_seconds, [&] { compute_whole_texts(); });
      timed(counts_.decode_seconds, [&] { decode_cached_texts(); });
    }
    counts_.pages = cache_.pages;
    counts_.most_pages = texts_.pages().most_used();
    counts_.texts_put_back = texts_.texts_put_back();
    return counts_;
  }

 private:
  template <typename Work>
  static void timed(double& seconds, const Work& work) {
    const double began = monotonic_seconds();
    work();
    seconds += monotonic_seconds() - began;
  }

  // Takes up texts into free rows; true if any is under way.
  bool take_up_texts() {
    for (size_t row = 0; row < texts_.size(); ++row) {
      while (!texts_[row] && texts_.take_up(row)) end_if_over(row);
    }
    return texts_.is_any_under_way();
  }

  // Before each call of the program that reads the cache.
  void give_pages() {
    const std::span<const int32_t> table = texts_.pages().table();
    if (std::ranges::equal(table, given_pages_)) return;
    given_pages_.assign(table.begin(), table.end());
    logits_.set_page_table(given_pages_);
  }

  void compute_whole_texts() {
    std::vector<size_t> whole;
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (texts_[i] && texts_.is_computed_whole(*texts_[i])) whole.push_back(i);
    }
    const auto most = static_cast<size_t>(std::max<int64_t>(cache_.prompts, 1));
    for (size_t first = 0; first < whole.size(); first += most)
      compute_whole(std::span(whole).subspan(first, std::min(most, whole.size() - first)));
  }

  void compute_whole(std::span<const size_t> rows) {
    if (cache_.sequences == 0) return compute_without_cache(rows[0]);
    std::vector<Prompt> prompts;
    for (const size_t row : rows) {
      const Text& text = *texts_[row];
      const bool is_kept = !texts_.is_past_context(text);
      if (!is_kept) texts_.release_pages(row);
      prompts.push_back({is_kept ? static_cast<int64_t>(row) : -1, texts_.whole_part(text)});
    }
    give_pages();
    const LogitRows logits = logits_.prefill(prompts);
    model_vocabulary_ = logits.vocab;
    for (const size_t row : rows) {
      Text& text = *texts_[row];
      text.cached = texts_.is_past_context(text) ? text.ids.size() : text.prompt_tokens;
    }
    take_drawn(rows, [&](size_t i) { return logits.row(static_cast<int64_t>(i)); });
  }

  void compute_without_cache(size_t row) {
    const Text& text = *texts_[row];
    const std::span<const int32_t> view = std::span(text.ids).last(std::min(text.ids.size(), context_));
    take(row, draw(text, logits_.next_logits(view, static_cast<int64_t>(view.size()) - 1)));
  }

  void decode_cached_texts() {
    texts_.grow_all();
    std::vector<int32_t> tokens(texts_.size(), 0), positions(texts_.size(), 0);
    std::vector<size_t> rows;
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (!texts_[i] || texts_.is_computed_whole(*texts_[i])) continue;
      rows.push_back(i);
      tokens[i] = texts_[i]->ids[texts_[i]->cached];
      positions[i] = static_cast<int32_t>(texts_[i]->cached);
    }
    if (rows.empty()) return;
    if (cache_.top > 0 && samples_from_top(options_.sampling, cache_.top))
      return extend_by_top(rows, tokens, positions);
    ++counts_.decode_steps;
    give_pages();
    const LogitRows logits = logits_.decode(tokens, positions);
    for (const size_t row : rows) ++texts_[row]->cached;
    take_drawn(rows, [&](size_t i) { return logits.row(static_cast<int64_t>(rows[i])); });
  }

  // Runs steps of the texts of `rows` until one of them ends. Each step begins before the previous one's
  // tokens are read, because the program has them; the extra step of a text that ended meanwhile is dropped.
  void extend_by_top(std::vector<size_t> rows, std::span<const int32_t> tokens,
                     std::vector<int32_t> positions) {
    int64_t left = steps_ahead(rows);
    size_t later = 0;  // tokens that are chosen, and not read
    const auto begin = [&](const NextLogits::Tokens& given) {
      ++counts_.decode_steps;
      --left;
      give_pages();
      logits_.begin_decode_top(given, positions, top_request(rows, later));
    };
    begin(tokens);
    for (bool goes_on = true; goes_on;) {
      goes_on = left > 0 && std::ranges::all_of(rows, [&](size_t row) { return texts_.grow(row, 1); });
      if (goes_on) {
        for (const size_t row : rows) ++positions[row];
        later = 1;
        begin(std::nullopt);
      }
      const std::vector<TopLogits> top = logits_.finish_decode_top();
      std::vector<size_t> going_on;
      for (const size_t row : rows) {
        if (take_top(row, top[row], goes_on)) going_on.push_back(row);
      }
      if (going_on.size() < rows.size()) left = 0;
      rows = std::move(going_on);
    }
  }

  // Steps that every text of `rows` has room for, of which each can begin before the one before is read.
  int64_t steps_ahead(std::span<const size_t> rows) {
    const bool is_programs_choice = options_.sampling.temperature == 0 || samples_from_all(options_.sampling);
    if (cache_.steps_in_flight < 2 || !is_programs_choice || std::exchange(reads_rows_, false)) return 1;
    int64_t steps = options_.max_new_tokens;
    for (const size_t row : rows) {
      const Text& text = *texts_[row];
      if (text.knows_next(1)) return 1;  // its tokens are not the program's choice
      steps = std::min({steps, options_.max_new_tokens - text.reply.new_tokens,
                        static_cast<int64_t>(context_ - text.ids.size()) + 1});
    }
    return steps;
  }

  // Requests the token behind `later` ones that texts do not hold yet.
  TopRequest top_request(std::span<const size_t> rows, size_t later) const {
    const double temperature = options_.sampling.temperature;
    TopRequest request{temperature > 0 ? temperature : 1, tokenizer_.rows(), {}};
    if (samples_from_all(options_.sampling)) {
      request.uniforms.assign(texts_.size(), -1);
      for (const size_t row : rows)
        request.uniforms[row] = sample_uniform(texts_[row]->sampling.seed, texts_[row]->ids.size() + later);
    }
    return request;
  }

  // Returns whether the text continues with the program's token. If the largest logits do not decide the
  // token and the next step has begun, the row is gone: the text repeats its step alone.
  bool take_top(size_t row, const TopLogits& top, bool next_has_begun) {
    std::optional<Text>& text = texts_[row];
    if (text->knows_next(1)) {
      ++text->cached;
      end_if_over(row);
      return text.has_value();
    }
    const std::optional<int32_t> id = sample_token(top, text->sampling, text->ids.size());
    if (!id && next_has_begun) {
      reads_rows_ = true;
      return false;
    }
    ++text->cached;
    take(row, id ? of_top(top, *id) : draw(*text, logits_.decoded_logits(static_cast<int64_t>(row))));
    return text.has_value() && id == top.drawn;
  }

  // The sum that a program finds is of the tokenizer's ids, at the temperature of sampling.
  Drawn of_top(const TopLogits& top, int32_t id) const {
    const bool is_known = options_.log_probabilities && options_.sampling.temperature == 1 &&
                          model_vocabulary_ <= tokenizer_.rows();
    return {id, is_known ? log_probability(top, id) : kUnknown};
  }

  // From the logits behind the text's last token.
  Drawn draw(const Text& text, std::span<const float> logits) const {
    // A model's vocabulary may be larger than its tokenizer's; those ids stand for nothing.
    const auto known = logits.first(std::min(logits.size(), static_cast<size_t>(tokenizer_.rows())));
    const int32_t id = sample_token(known, text.sampling, text.ids.size(), text.ids);
    return {id, options_.log_probabilities ? log_probability(logits, id) : kUnknown};
  }

  // Draws a token for each text of `rows` that does not know its next one, text i from the logits
  // logits_of(i). On all threads, because sorting a large vocabulary takes longer than a GPU's step.
  template <typename LogitsOf>
  void take_drawn(std::span<const size_t> rows, const LogitsOf& logits_of) {
    const std::vector<Drawn> tokens = drawn(rows, logits_of);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (texts_[rows[i]]->knows_next(0))
        end_if_over(rows[i]);
      else
        take(rows[i], tokens[i]);
    }
  }

  template <typename LogitsOf>
  std::vector<Drawn> drawn(std::span<const size_t> rows, const LogitsOf& logits_of) const {
    std::vector<Drawn> tokens(rows.size());
    std::vector<std::exception_ptr> errors(rows.size());
    constexpr int64_t worth_threads = 1 << 16;  // logits
    const auto count = static_cast<int64_t>(rows.size());
#pragma omp parallel for schedule(dynamic) if (count * tokenizer_.rows() > worth_threads)
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      const Text& text = *texts_[rows[at]];
      if (text.knows_next(0)) continue;
      try {
        tokens[at] = draw(text, logits_of(at));
      } catch (...) {
        errors[at] = std::current_exception();
      }
    }
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    return tokens;
  }

  void take(size_t row, const Drawn& token) {
    Text& text = *texts_[row];
    const int32_t id = token.id;
    ++text.reply.new_tokens;
    text.reply.ids.push_back(id);
    if (options_.log_probabilities) text.reply.log_probabilities.push_back(token.log_probability);
    ++counts_.new_tokens;
    if (tokenizer_.end_tokens().contains(id)) return end(row, TextEnd::end_of_text);
    text.ids.push_back(id);
    say(text, text.stops.push(text.decoder.push(id)));
    if (const std::string_view token = tokenizer_.token_bytes(id);
        tokenizer_.is_special(id) && text.stops.name(token))
      say(text, text.stops.push(token, false));
    if (text.stops.stopped()) return end(row, TextEnd::stop);
    end_if_over(row);
  }

  void end_if_over(size_t row) {
    const Text& text = *texts_[row];
    if (options_.interruptible && stop_requested()) return end(row, TextEnd::interrupted);
    if (text.reply.new_tokens >= options_.max_new_tokens) return end(row, TextEnd::length);
    const bool is_too_long = cache_.sequences > 0 && texts_.is_computed_whole(text) &&
                             texts_.whole_part(text).size() > static_cast<size_t>(cache_.prompt_tokens);
    if (is_too_long) end(row, TextEnd::context);
  }

  void say(Text& text, const std::string& piece) {
    if (piece.empty()) return;
    text.reply.text += piece;
    events_.on_text(text.request, piece);
  }

  void end(size_t row, TextEnd how) {
    Text& text = *texts_[row];
    text.reply.end = how;
    say(text, text.stops.push(text.decoder.finish()));
    say(text, text.stops.finish());
    events_.on_end(text.request, text.reply);
    texts_.end(row);
  }

  NextLogits logits_;
  const Tokenizer& tokenizer_;
  std::span<const TextRequest> requests_;
  const GenerateOptions& options_;
  const TextEvents& events_;
  const CacheShape cache_;
  const size_t context_;
  TextRows texts_;
  std::vector<int32_t> given_pages_;  // that the program has
  int64_t model_vocabulary_ = 0;      // as prefill() says
  bool reads_rows_ = false;           // the next step does not run ahead: whole rows may be needed
  GenerateCounts counts_;
};

}  // namespace

std::string_view to_string(TextEnd end) {
  switch (end) {
    case TextEnd::end_of_text:
      return "end_of_text";
    case TextEnd::stop:
      return "stop";
    case TextEnd::length:
      return "length";
    case TextEnd::context:
      return "context";
    case TextEnd::interrupted:
      return "interrupted";
  }
  throw std::logic_error("no such end of a text");
}

void check_generate_options(const GenerateOptions& options) {
  check_sample_options(options.sampling);
  if (std::ranges::count(options.stop, "") > 0)
    throw InputError("stop holds an empty text, which every text would end before");
}

std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const GenerateOptions& options) {
  check_generate_options(options);
  std::vector<int32_t> ids = tokenizer.encode_prompt(options.prompt);
  if (ids.empty()) ids.push_back(first_token(tokenizer));
  return ids;
}

GenerateCounts generate_batch(StepProgram& program, const Tokenizer& tokenizer,
                              std::span<const TextRequest> requests, const GenerateOptions& options,
                              const TextEvents& events) {
  check_generate_options(options);
  return BatchGenerator(program, tokenizer, requests, options, events).run();
}

int64_t generate(StepProgram& program, const Tokenizer& tokenizer, const GenerateOptions& options,
                 const std::function<void(std::string_view)>& emit) {
  const TextRequest request{prompt_ids(tokenizer, options), options.sampling.seed};
  TextEvents events;
  events.on_text = [&](size_t, std::string_view piece) { emit(piece); };
  return generate_batch(program, tokenizer, {&request, 1}, options, events).new_tokens;
}

}  // namespace hydrac::runtime
