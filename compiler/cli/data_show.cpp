// `hydrac data show SPEC`: what a training sequence is, token by token, and which tokens are learned.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/input/spec_input.h"
#include "cli/verb.h"
#include "runtime/base/quote.h"
#include "runtime/base/utf8.h"
#include "runtime/error.h"
#include "runtime/log/units.h"

namespace hydrac::cli {

using runtime::InputError;

namespace {

// A token of a sequence, in the order in which a document is read. A document's last token may be only a
// target.
struct ShownToken {
  int32_t id;
  bool is_learned;
};

using Document = std::vector<ShownToken>;

// The documents of a row of a batch; those without a target, which fill a sequence up, are left out.
std::vector<Document> documents_of(const runtime::Batch& batch, int64_t row, int64_t length) {
  const auto at = [&](int64_t token) { return static_cast<size_t>(row * length + token); };
  std::vector<Document> documents;
  for (int64_t begin = 0, end = 0; begin < length; begin = end) {
    end = batch.documents.empty() ? length : batch.documents[2 * at(begin) + 1];
    Document document = {{batch.tokens[at(begin)], false}};
    bool any = false;
    for (int64_t i = begin; i < end; ++i) {
      const int32_t target = batch.targets[at(i)];
      const bool is_learned = target != runtime::kIgnoredTarget;
      any |= is_learned;
      if (i + 1 < end)
        document.push_back({batch.tokens[at(i + 1)], is_learned});
      else if (is_learned)
        document.push_back({target, true});
    }
    if (any) documents.push_back(std::move(document));
  }
  return documents;
}

// Escapes that a terminal acts on; empty where there is none.
struct Colours {
  const char *learned = "", *context = "", *special = "", *off = "";
};

Colours colours() {
  if (::isatty(STDOUT_FILENO) == 0) return {};
  return {"\033[32m", "\033[2m", "\033[1m", "\033[0m"};
}

// Learned text between these where nothing has colours.
constexpr std::string_view kOpen = "\u00ab", kClose = "\u00bb";

// Text, in which neighbours of one kind are printed at once: a character may be several tokens.
void print_text(const Document& document, const runtime::Tokenizer& tokenizer) {
  const Colours colour = colours();
  const bool is_plain = *colour.off == '\0';
  for (size_t begin = 0, end = 0; begin < document.size(); begin = end) {
    const auto kind = [&](const ShownToken& token) {
      return std::pair(token.is_learned, tokenizer.is_special(token.id));
    };
    std::string text;
    for (end = begin; end < document.size() && kind(document[end]) == kind(document[begin]); ++end)
      text += tokenizer.token_bytes(document[end].id);
    const auto [is_learned, is_special] = kind(document[begin]);
    fmt::print("{}{}{}", is_special ? colour.special : "", is_learned ? colour.learned : colour.context,
               is_plain && is_learned && (begin == 0 || !document[begin - 1].is_learned) ? kOpen : "");
    fmt::print("{}{}", runtime::printable(runtime::replace_malformed_utf8(text)), colour.off);
    const bool ends = end == document.size() || !document[end].is_learned;
    if (is_plain && is_learned && ends) fmt::print("{}", kClose);
  }
  fmt::print("\n");
}

// position, id, weight in the loss, text.
void print_tokens(const Document& document, const runtime::Tokenizer& tokenizer) {
  const Colours colour = colours();
  for (size_t i = 0; i < document.size(); ++i) {
    const auto& [id, is_learned] = document[i];
    const std::string_view bytes = tokenizer.token_bytes(id);
    const std::string text = runtime::in_quotes(runtime::replace_malformed_utf8(bytes), bytes.size());
    fmt::print("{}{:>6} {:>7} {} {}{}\n", is_learned ? colour.learned : colour.context, i, id,
               is_learned ? 1 : 0, text, colour.off);
  }
}

void show(const runtime::Corpus& corpus, const spec::Spec& spec, int64_t count, bool by_token) {
  runtime::Batch batch;
  const int64_t length = spec.train.sequence_len, rows = corpus.loader->batch_size();
  // A curriculum draws with replacement, as often as one likes.
  if (spec.data.curriculum.steps == 0) count = std::min(count, corpus.loader->samples_per_epoch());
  for (int64_t sample = 0; sample < count; ++sample) {
    if (sample % rows == 0) corpus.loader->fill_train(sample, batch);
    const std::vector<Document> documents = documents_of(batch, sample % rows, length);
    int64_t learned = 0;
    for (const Document& document : documents)
      learned += std::ranges::count_if(document, &ShownToken::is_learned);
    const double share = batch.stage.curriculum_share;  // of its one row
    fmt::print("sequence {}: {} of {} positions learned, {}{}\n", sample + 1, learned, length,
               runtime::counted(std::ssize(documents), "document"),
               share > 0 ? fmt::format(", drawn from the first {:.1f}% of the data", 100 * share) : "");
    for (size_t i = 0; i < documents.size(); ++i) {
      if (documents.size() > 1) fmt::print("--- document {}\n", i + 1);
      by_token ? print_tokens(documents[i], *corpus.tokenizer) : print_text(documents[i], *corpus.tokenizer);
    }
  }
}

}  // namespace

int data_show_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  if (spec->model.input != spec::Input::tokens)
    throw InputError("data show is for tokens, and the input is series");
  const int64_t count = arguments.number("--sequences", 1);
  if (count < 1) throw InputError("-n takes a number of at least 1");
  spec->train.micro_batch_size = 1;  // `auto` is for memory that nothing is put into here
  show(open_corpus(*spec, arguments.has("--quiet")), *spec, count, arguments.has("--tokens"));
  return kFine;
}

}  // namespace hydrac::cli
