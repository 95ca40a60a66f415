// The BPE tokenizer: added tokens are found, the rest is normalized, cut into pieces, and merged.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "runtime/base/utf8.h"
#include "runtime/data/hash.h"
#include "runtime/data/read_end_tokens.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/text/tokenizer/added_tokens.h"
#include "runtime/text/tokenizer/bpe_file.h"
#include "runtime/text/tokenizer/bpe_merges.h"
#include "runtime/text/tokenizer/pretokenizer.h"
#include "runtime/text/tokenizer/space_marks.h"
#include "runtime/text/tokenizer/tokenizer_kinds.h"
#include "runtime/text/tokenizer/word_cache.h"
#include "runtime/text/unicode.h"

namespace hydrac::runtime {

namespace {

std::vector<AddedToken> added_tokens(const BpeFile& file, bool normalized) {
  std::vector<AddedToken> chosen;
  for (const AddedToken& token : file.added) {
    if (token.normalized != normalized) continue;
    chosen.push_back(token);
    if (normalized && file.nfc) chosen.back().content = to_nfc(token.content);
  }
  return chosen;
}

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(BpeFile file, PreTokenizer pre_tokenizer, EndTokens ends, std::string_view text,
               const std::string& shown_as)
      : file_(std::move(file)),
        ends_(std::move(ends)),
        raw_tokens_(added_tokens(file_, false)),
        normalized_tokens_(added_tokens(file_, true)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        text_(text),
        shown_as_(shown_as) {
    if (!file_.ignore_merges) return;
    for (size_t id = 0; id < file_.tokens.size(); ++id) {
      if (file_.in_model[id]) whole_pieces_.emplace(file_.tokens[id], static_cast<int32_t>(id));
    }
  }

  std::string_view token_bytes(int32_t id) const override {
    check_id(id);
    return file_.tokens[static_cast<size_t>(id)];
  }
  int64_t vocab_size() const override { return static_cast<int64_t>(file_.tokens.size()); }
  const EndTokens& end_tokens() const override { return ends_; }
  bool is_special(int32_t id) const override {
    check_id(id);
    return file_.special[static_cast<size_t>(id)];
  }
  std::vector<int32_t> encode_prompt(std::string_view text) const override;
  std::string_view name() const override { return file_.space_marks ? "sentencepiece" : "bpe"; }
  std::string to_json() const override { return text_; }

 protected:
  void do_encode(std::string_view text, std::vector<int32_t>& out,
                 const ByteProgress& progress) const override;
  void do_encode_more(std::string_view text, std::vector<int32_t>& ids) const override;
  void do_encode_at(std::string_view text, std::span<const size_t> places, std::vector<int32_t>& ids,
                    std::vector<IdsAt>& at) const override;
  uint64_t fingerprint_bits() const override { return Hash64().add("bpe").add(text_).value(); }

 private:
  // Buffers of one call of encode; kept between calls for the sake of the cache.
  struct Scratch {
    Regex::Scratch regex;
    WordCache words;
    MergeScratch merge;
    std::vector<int32_t> piece;
  };
  // One call of encode.
  struct Run {
    Scratch& scratch;
    std::vector<int32_t>& out;
    const ByteProgress& progress;
    size_t bytes = 0;  // done
    size_t next_report = kProgressBytes;
  };

  std::unique_ptr<Scratch> borrow_scratch() const {
    const std::lock_guard lock(scratch_mutex_);
    if (idle_scratch_.empty()) return std::make_unique<Scratch>();
    std::unique_ptr<Scratch> scratch = std::move(idle_scratch_.back());
    idle_scratch_.pop_back();
    return scratch;
  }
  void return_scratch(std::unique_ptr<Scratch> scratch) const {
    const std::lock_guard lock(scratch_mutex_);
    idle_scratch_.push_back(std::move(scratch));
  }
  void check_id(int32_t id) const {
    if (id < 0 || id >= vocab_size()) {
      throw InputError(
          fmt::format("token {} is outside the vocabulary [0, {}) of {}", id, vocab_size(), shown_as_));
    }
  }
  // Place of a stretch in the text: its start, behind an added token, or within.
  enum class Place { start, behind_added_token, within };
  // A part of the text that is an added token, or has none.
  struct Stretch {
    std::string_view text;
    const AddedToken* token;
    Place place;
  };
  // `visit` may be empty; else it is called behind each stretch's ids.
  void encode_from(Place place, std::string_view text, std::vector<int32_t>& out,
                   const ByteProgress& progress, const std::function<void(const Stretch&)>& visit = {}) const;
  std::string with_marks(std::string_view text, Place place) const;
  size_t encoded_size(std::string_view text, Place place) const;
  void encode_stretch(std::string_view text, Run& run) const;
  void encode_marked(std::string_view text, Run& run) const;
  void append_characters(std::string_view piece, std::vector<int32_t>& ids) const;
  void append_byte(char c, std::vector<int32_t>& ids) const;
  void encode_piece(std::string_view piece, Run& run) const;
  void merge_piece(std::string_view piece, Scratch& scratch) const;

  BpeFile file_;
  EndTokens ends_;
  AddedTokenMatcher raw_tokens_;
  AddedTokenMatcher normalized_tokens_;
  PreTokenizer pre_tokenizer_;
  std::unordered_map<std::string_view, int32_t> whole_pieces_;  // with ignore_merges: by bytes
  std::string text_;
  std::string shown_as_;
  mutable std::mutex scratch_mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_scratch_;
};

void BpeTokenizer::do_encode(std::string_view text, std::vector<int32_t>& out,
                             const ByteProgress& progress) const {
  encode_from(Place::start, text, out, progress);
}

void BpeTokenizer::do_encode_more(std::string_view text, std::vector<int32_t>& ids) const {
  const auto is_last = [&](const AddedToken& token) { return token.id == ids.back(); };
  const Place place = ids.empty()                                 ? Place::start
                      : std::ranges::any_of(file_.added, is_last) ? Place::behind_added_token
                                                                  : Place::within;
  encode_from(place, text, ids, {});
}

std::vector<int32_t> BpeTokenizer::encode_prompt(std::string_view text) const {
  std::vector<int32_t> ids = file_.post_processor.before;
  encode_from(Place::start, text, ids, {});
  ids.insert(ids.end(), file_.post_processor.behind.begin(), file_.post_processor.behind.end());
  require_rows(ids);
  return ids;
}

void BpeTokenizer::do_encode_at(std::string_view text, std::span<const size_t> places,
                                std::vector<int32_t>& ids, std::vector<IdsAt>& at) const {
  const size_t before = ids.size();
  size_t first = 0;  // id of the stretch
  auto next = places.begin();
  encode_from(Place::start, text, ids, {}, [&](const Stretch& stretch) {
    const auto begin = static_cast<size_t>(stretch.text.data() - text.data());
    const auto of_stretch = std::span(ids).subspan(before + first);
    for (; next != places.end() && *next <= begin + stretch.text.size(); ++next) {
      const std::string_view part = stretch.text.substr(0, *next - begin);
      IdsAt within{of_stretch.size(), of_stretch.size()};
      if (part.size() < stretch.text.size())
        within = stretch.token ? IdsAt{0, part.empty() ? size_t{0} : size_t{1}}
                               : ids_at(of_stretch, encoded_size(part, stretch.place));
      at.push_back({first + within.ended, first + within.begun});
    }
    first += of_stretch.size();
  });
  at.insert(at.end(), static_cast<size_t>(places.end() - next), {first, first});  // of an empty text
}

std::string BpeTokenizer::with_marks(std::string_view text, Place place) const {
  const SpaceMarks::Prefix prefix =
      place == Place::within ? SpaceMarks::Prefix::never : file_.space_marks->prefix;
  return with_space_marks(text, prefix, place == Place::start);
}

// Bytes of the tokens that stand for the beginning of a stretch.
size_t BpeTokenizer::encoded_size(std::string_view text, Place place) const {
  if (file_.space_marks) return without_space_marks(with_marks(text, place)).size();
  return file_.nfc ? to_nfc(text).size() : text.size();
}

void BpeTokenizer::encode_from(Place place, std::string_view text, std::vector<int32_t>& out,
                               const ByteProgress& progress,
                               const std::function<void(const Stretch&)>& visit) const {
  if (const auto bad = find_malformed_utf8(text)) {
    throw InputError(fmt::format("byte {} is not UTF-8; this tokenizer needs UTF-8 text", *bad));
  }
  std::unique_ptr<Scratch> scratch = borrow_scratch();
  Run run{*scratch, out, progress};
  raw_tokens_.for_each_stretch(text, [&](std::string_view stretch, const AddedToken* token) {
    const Place here = stretch.data() == text.data() ? place : Place::behind_added_token;
    if (token != nullptr) {
      out.push_back(token->id);
    } else if (file_.space_marks) {
      encode_marked(with_marks(stretch, here), run);
    } else if (file_.nfc) {
      encode_stretch(to_nfc(stretch), run);
    } else {
      encode_stretch(stretch, run);
    }
    if (visit) visit({stretch, token, here});
  });
  return_scratch(std::move(scratch));
}

// `text` has marks for spaces, and is one piece unless they split it.
void BpeTokenizer::encode_marked(std::string_view text, Run& run) const {
  while (file_.space_marks->splits) {
    const size_t next = text.find(kSpaceMark, 1);
    if (next == std::string_view::npos) break;
    encode_piece(text.substr(0, next), run);
    text.remove_prefix(next);
  }
  encode_piece(text, run);
}

// `text` is normalized and holds no raw added token.
void BpeTokenizer::encode_stretch(std::string_view text, Run& run) const {
  normalized_tokens_.for_each_stretch(text, [&](std::string_view stretch, const AddedToken* token) {
    if (token != nullptr) {
      run.out.push_back(token->id);
      return;
    }
    pre_tokenizer_.split(stretch, run.scratch.regex,
                         [&](std::string_view piece) { encode_piece(piece, run); });
  });
}

void BpeTokenizer::encode_piece(std::string_view piece, Run& run) const {
  run.bytes += piece.size();
  if (run.bytes >= run.next_report) {
    run.next_report = run.bytes + kProgressBytes;
    if (run.progress) run.progress(run.bytes);
  }
  WordCache& words = run.scratch.words;
  const std::vector<int32_t>& ids = run.scratch.piece;
  if (!WordCache::takes(piece)) {
    merge_piece(piece, run.scratch);
    run.out.insert(run.out.end(), ids.begin(), ids.end());
  } else if (const auto known = words.find(piece)) {
    run.out.insert(run.out.end(), known->begin(), known->end());
  } else {
    merge_piece(piece, run.scratch);
    words.insert(piece, ids);
    run.out.insert(run.out.end(), ids.begin(), ids.end());
  }
}

// Leaves the ids of `piece` in scratch.piece.
void BpeTokenizer::merge_piece(std::string_view piece, Scratch& scratch) const {
  std::vector<int32_t>& ids = scratch.piece;
  ids.clear();
  if (file_.ignore_merges) {
    if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  if (piece.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw InputError(
        fmt::format("a stretch of {} bytes without a break is too long to tokenize", piece.size()));
  }
  if (file_.space_marks) {
    append_characters(piece, ids);
  } else {
    for (const char c : piece) append_byte(c, ids);
  }
  merge_ids(file_.merges, ids, scratch.merge);
}

void BpeTokenizer::append_byte(char c, std::vector<int32_t>& ids) const {
  const auto byte = static_cast<unsigned char>(c);
  const int32_t id = file_.byte_ids[byte];
  if (id < 0) throw InputError(fmt::format("{} has no token for the byte 0x{:02X}", shown_as_, byte));
  ids.push_back(id);
}

// A character that is no token is its bytes.
void BpeTokenizer::append_characters(std::string_view piece, std::vector<int32_t>& ids) const {
  std::string character;
  for (size_t at = 0; at < piece.size();) {
    const size_t begin = at;
    next_code_point(piece, at);
    character = piece.substr(begin, at - begin);
    if (const auto known = file_.characters.find(character); known != file_.characters.end()) {
      ids.push_back(known->second);
    } else {
      for (const char c : character) append_byte(c, ids);
    }
  }
}

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(const nlohmann::json& root, std::string_view text,
                                              const EndDeclarations& declared, const std::string& shown_as) {
  BpeFile file = read_bpe_file(root, shown_as);
  PreTokenizer pre_tokenizer =
      file.space_marks ? PreTokenizer() : PreTokenizer(json_field(root, "pre_tokenizer"), shown_as);
  return std::make_unique<BpeTokenizer>(std::move(file), std::move(pre_tokenizer),
                                        end_tokens_of(root, declared), text, shown_as);
}

}  // namespace hydrac::runtime
