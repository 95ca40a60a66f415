// Text to token ids and back, whatever the kind of tokenizer (runtime/text has characters and byte-level
// BPE). Every kind survives a round trip through to_json() and parse_tokenizer(), which is how a checkpoint
// carries it.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/end_tokens.h"

namespace hydrac::runtime {

// How many ids of a text end at or before a place in it, and how many begin before.
struct IdsAt {
  size_t ended = 0, begun = 0;
};

// Immutable once it is limited; all other members may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of `text`. Adds no begin or end token. Throws InputError for text that has no ids (malformed
  // UTF-8, or a character outside a character vocabulary), naming the byte offset.
  std::vector<int32_t> encode(std::string_view text) const;
  // The same, appended to `out`, which is unspecified after an error. `progress` hears now and then how many
  // bytes of a long text are done.
  using ByteProgress = std::function<void(size_t bytes_done)>;
  void encode_to(std::string_view text, std::vector<int32_t>& out, const ByteProgress& progress = {}) const;

  // Appends the ids of `text` to `ids`, and what is known of each of `places`, ascending offsets into it in
  // bytes, to `at`.
  void encode_at(std::string_view text, std::span<const size_t> places, std::vector<int32_t>& ids,
                 std::vector<IdsAt>& at) const;

  // The ids of `text` as a prompt by itself, with the tokens that tokenizer.json's post_processor puts around
  // one, such as a beginning of text; training data has them only where they are written in it.
  virtual std::vector<int32_t> encode_prompt(std::string_view text) const { return encode(text); }

  // Appends the ids of `text` as one that goes on from `ids`, which a tokenizer that puts a space before a
  // text needs to know. Empty `ids`: as encode().
  void encode_more(std::string_view text, std::vector<int32_t>& ids) const;

  // The concatenated token_bytes(). May be malformed UTF-8 where the ids cut a character in two.
  std::string decode(std::span<const int32_t> ids) const;
  // The bytes that one id stands for; valid as long as the tokenizer. Empty for ids in [0, vocab_size()) that
  // no token uses. Throws InputError for an id outside.
  virtual std::string_view token_bytes(int32_t id) const = 0;

  // One more than the largest id.
  virtual int64_t vocab_size() const = 0;
  // A model may have fewer rows than its tokenizer has tokens. From here on, encoding to others is an
  // InputError.
  void limit_to(int64_t rows) { rows_ = rows; }
  // Ids below this one have rows.
  int64_t rows() const { return rows_ > 0 && rows_ < vocab_size() ? rows_ : vocab_size(); }
  // InputError that names the first of these ids without a row.
  void require_rows(std::span<const int32_t> ids) const;
  // Bytes use 0, which no text contains; characters have none.
  virtual const EndTokens& end_tokens() const = 0;
  // The id that stands between documents.
  std::optional<int32_t> end_of_text() const { return end_tokens().document; }
  // True for control tokens such as <|endoftext|>, which sampled text leaves out.
  virtual bool is_special(int32_t id) const = 0;

  // "byte", "char", "bpe" (of bytes) or "sentencepiece" (BPE of characters, in which spaces are marks).
  virtual std::string_view name() const = 0;
  // Hugging Face's tokenizer.json, from which parse_tokenizer() makes an equal tokenizer.
  virtual std::string to_json() const = 0;
  // 16 hex digits of a 64-bit hash over what decides the ids. Equal fingerprints, equal ids.
  std::string fingerprint() const;

 protected:
  Tokenizer() = default;
  static constexpr size_t kProgressBytes = size_t{1} << 20;  // between two calls of progress
  virtual void do_encode(std::string_view text, std::vector<int32_t>& out,
                         const ByteProgress& progress) const = 0;
  virtual void do_encode_more(std::string_view text, std::vector<int32_t>& ids) const {
    do_encode(text, ids, {});
  }
  virtual void do_encode_at(std::string_view text, std::span<const size_t> places, std::vector<int32_t>& ids,
                            std::vector<IdsAt>& at) const;
  // The place in `ids`, whose token_bytes() are a text, of byte `place` of that text.
  IdsAt ids_at(std::span<const int32_t> ids, size_t place) const;
  virtual uint64_t fingerprint_bits() const = 0;

 private:
  int64_t rows_ = 0;  // 0: no limit
};

// 256 ids, id = byte. end_of_text is 0: a text source refuses NUL bytes, so 0 is free to separate documents.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// Reads those of `names` that exist in the folder that holds the file at `path`: name -> contents. InputError
// for one that cannot be read, is no text, or is a link that leads out of the folder.
std::map<std::string, std::string> files_beside(const std::string& path,
                                                std::initializer_list<const char*> names);

// The files of a checkpoint for AutoTokenizer and generate() of transformers: `json` as tokenizer.json; from
// the folder it was read from, `path`, whatever else says how texts are made and generated, such as the chat
// template; and in generation_config.json the tokens that end a text. `path` is empty for hydrac's own.
std::map<std::string, std::string> tokenizer_files(const std::string& path, const std::string& json,
                                                   const EndTokens& ends);

// The fingerprint() of the byte-level BPE that this text, a tokenizer.json, describes; known without parsing
// it.
std::string bpe_fingerprint(std::string_view json);

// Turns a stream of ids into text that can be printed at once: bytes of an unfinished character wait for the
// next id.
class StreamDecoder {
 public:
  // `tokenizer` must outlive the decoder. Special tokens print nothing.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(int32_t id);
  // The remainder; malformed bytes come out as U+FFFD, here and in push().
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
};

}  // namespace hydrac::runtime
