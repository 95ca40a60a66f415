#include "prepare/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "prepare/document_order.h"
#include "prepare/mixture.h"
#include "prepare/token_corpus.h"
#include "prepare/train_tokenizer.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/data/tokenizer.h"
#include "runtime/error.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::prepare {

using runtime::InputError;
using runtime::Tokenizer;

namespace {

enum class Kind { learned, bytes, characters, file };

Kind kind_of(const std::string& tokenizer) {
  if (tokenizer.empty()) return Kind::learned;
  if (tokenizer == "byte") return Kind::bytes;
  return tokenizer == "char" ? Kind::characters : Kind::file;
}

// True if a tokenizer.json splits text as GPT-2's does, and no rule looks across line ends: then texts may be
// cut there.
bool splits_as_gpt2(const std::string& text) {
  const nlohmann::json root = nlohmann::json::parse(text);
  const auto is_null = [&](const char* key) { return !root.contains(key) || root[key].is_null(); };
  if (!is_null("normalizer") || is_null("pre_tokenizer")) return false;
  const nlohmann::json& split = root["pre_tokenizer"];
  if (split.value("type", "") != "ByteLevel" || split.value("add_prefix_space", true) ||
      !split.value("use_regex", true))
    return false;
  if (is_null("added_tokens")) return true;
  for (const nlohmann::json& token : root["added_tokens"]) {
    if (token.value("lstrip", false) || token.value("rstrip", false) ||
        token.value("content", "").find('\n') != std::string::npos)
      return false;
  }
  return true;
}

uint64_t fingerprint_of(const Tokenizer& tokenizer) {
  const std::string hex = tokenizer.fingerprint();
  uint64_t bits = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
  return bits;
}

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options)
      : options_(options), kind_(kind_of(options.tokenizer)) {}

  PrepareReport run() {
    if (kind_ == Kind::learned && options_.vocab_size < kSmallestVocabulary) {
      throw InputError(fmt::format(
          "a vocabulary of {} is too small: the 256 bytes and {} are {} tokens, and merges come on top",
          options_.vocab_size, kEndOfText, kSmallestVocabulary));
    }
    if (kind_ == Kind::bytes) tokenizer_ = runtime::make_byte_tokenizer();
    if (kind_ == Kind::file) tokenizer_ = runtime::load_tokenizer(options_.tokenizer);
    const TextCorpus text = read();
    const std::vector<uint64_t> places = cut_places(text, may_cut());
    if (kind_ == Kind::learned) learn(text, places);
    if (kind_ == Kind::characters) {
      tokenizer_ = runtime::make_char_tokenizer([&](const runtime::TextVisitor& visit) {
        for (size_t i = 0; i < text.size(); ++i) visit(text.document(i));
      });
    }
    report_.vocab_size = tokenizer_->vocab_size();
    write_tokenizer();
    const TokenCorpus tokens = encode_corpus(text, *tokenizer_, places, options_.threads,
                                             options_.folder / "tokens.scratch", progress("tokenizing"));
    write_shards_of(text, tokens);
    write(kReportFile, report_json(report_, options_));
    runtime::sync_folder(options_.folder);
    return std::move(report_);
  }

 private:
  std::function<void(int64_t, int64_t)> progress(std::string_view phase) const {
    return [this, phase](int64_t done, int64_t of) {
      if (options_.progress) options_.progress(phase, done, of);
    };
  }

  bool may_cut() const { return kind_ != Kind::file || splits_as_gpt2(tokenizer_->to_json()); }

  TextCorpus read() {
    ReadOptions read;
    read.text_key = options_.text_key;
    read.dedupe = options_.dedupe;
    if (kind_ == Kind::learned) read.end_of_text = kEndOfText;
    if (kind_ == Kind::file && tokenizer_->end_of_text())
      read.end_of_text = tokenizer_->token_bytes(*tokenizer_->end_of_text());
    read.utf8 = kind_ != Kind::bytes;
    read.threads = options_.threads;
    read.scratch = options_.folder / "text.scratch";
    read.progress = progress("reading");
    TextCorpus text = read_corpus(options_.sources, read);
    for (size_t i = 0; i < options_.sources.size(); ++i) {
      const Source& source = options_.sources[i];
      const SourceCounts& counts = text.counts[i];
      report_.sources.push_back({source.name, source.weight, source.files.size(), counts});
      report_.text.documents += counts.documents;
      report_.text.bytes += counts.bytes;
      report_.text.dropped_documents += counts.dropped_documents;
      report_.text.dropped_lines += counts.dropped_lines;
      report_.text.dropped_bytes += counts.dropped_bytes;
    }
    return text;
  }

  void learn(const TextCorpus& text, const std::vector<uint64_t>& places) {
    std::vector<std::string_view> texts;
    for (size_t i = 1; i < places.size(); ++i) {
      for (uint64_t at = places[i - 1]; at < places[i];) {
        const uint64_t end = std::min(text.ends[document_at(text, at)], places[i]);
        texts.push_back(text.text->bytes().substr(at, end - at));
        at = end;
      }
    }
    const auto counted = progress("counting words");
    const WordCounts words =
        count_words(texts, options_.threads, [&](int64_t bytes) { counted(bytes, report_.text.bytes); });
    const auto merged = progress("merging");
    const std::string json = train_tokenizer(words, options_.vocab_size,
                                             [&](int64_t tokens) { merged(tokens, options_.vocab_size); });
    report_.words = words.size();
    tokenizer_ = runtime::parse_tokenizer(json, "the tokenizer");
  }

  void write(const std::string& name, std::string_view text) const {
    runtime::FileWriter file(options_.folder / name);
    file.write(text);
    file.close_durably();
  }
  void write_tokenizer() {
    if (kind_ == Kind::bytes) return;  // a spec names it by its word
    for (const auto& [name, text] :
         runtime::tokenizer_files(kind_ == Kind::file ? options_.tokenizer : "", tokenizer_->to_json(),
                                  tokenizer_->end_tokens())) {
      write(name, text);
      report_.tokenizer_files.push_back(name);
    }
  }

  void write_shards_of(const TextCorpus& text, const TokenCorpus& tokens) {
    MixtureOptions mixing;
    for (const Source& source : options_.sources) mixing.weights.push_back(source.weight);
    mixing.val_fraction = options_.val_fraction;
    mixing.has_end_of_text = tokenizer_->end_of_text().has_value();
    mixing.seed = options_.seed;
    std::vector<uint32_t> source_of;
    source_of.reserve(text.size());
    for (const uint32_t file : text.file_of) source_of.push_back(text.source_of[file]);
    Mixture mixture = mix(tokens.ends, source_of, mixing);
    const DocumentTokens documents(tokens, mixing.has_end_of_text);
    if (options_.order == Order::length) sort_by_length(documents, mixture.train);
    if (options_.order == Order::rarity) sort_by_rarity(documents, mixture.train);
    report_.tokens = tokens.ends.back() - (mixing.has_end_of_text ? text.size() : 0);
    for (size_t i = 0; i < report_.sources.size(); ++i) {
      report_.sources[i].train_tokens = mixture.shares[i].train_tokens;
      report_.sources[i].val_tokens = mixture.shares[i].val_tokens;
      report_.train_tokens += mixture.shares[i].train_tokens;
      report_.val_tokens += mixture.shares[i].val_tokens;
    }
    if (options_.val_fraction > 0 && mixture.val.empty()) {
      throw InputError(
          fmt::format("a fraction of {} of {} tokens leaves none to validate with: take a larger "
                      "one, or 0",
                      options_.val_fraction, tokens.ends.back()));
    }
    if (mixture.train.empty())
      throw InputError(fmt::format("{} tokens leave none to train with", tokens.ends.back()));
    ShardOptions shards;
    shards.folder = options_.folder;
    shards.tokens = options_.shard_tokens;
    // A program without a reader of tokenizers takes the fingerprint of a tokenizer.json for that of BPE.
    shards.fingerprint = tokenizer_->name() == "char" ? 0 : fingerprint_of(*tokenizer_);
    shards.end_of_text = tokenizer_->end_of_text();
    const auto written = progress("writing");
    const auto total = static_cast<int64_t>(report_.train_tokens + report_.val_tokens);
    shards.done = [&](int64_t done) { written(done, total); };
    shards.prefix = "train";
    report_.train_files = write_shards(tokens, mixture.train, shards);
    shards.prefix = "val";
    shards.done = {};
    report_.val_files = write_shards(tokens, mixture.val, shards);
  }

  const PrepareOptions& options_;
  Kind kind_;
  std::unique_ptr<Tokenizer> tokenizer_;
  PrepareReport report_;
};

}  // namespace

PrepareReport prepare(const PrepareOptions& options) {
  return Preparation(options).run();
}

}  // namespace hydrac::prepare
