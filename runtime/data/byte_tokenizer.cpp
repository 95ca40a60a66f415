// The tokenizer whose ids are the bytes themselves.
#include <fmt/core.h>

#include <array>
#include <string>

#include "runtime/data/hash.h"
#include "runtime/data/tokenizer.h"
#include "runtime/data/utf8.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(static_cast<unsigned char>(i));
  }
  std::string_view token_bytes(int32_t id) const override {
    if (id < 0 || id >= 256)
      throw InputError(fmt::format("token {} is outside the byte vocabulary [0, 256)", id));
    return {&bytes_[static_cast<size_t>(id)], 1};
  }
  int64_t vocab_size() const override { return 256; }
  const EndTokens& end_tokens() const override { return ends_; }
  bool is_special(int32_t id) const override { return id == 0; }
  std::string_view name() const override { return "byte"; }
  std::string to_json() const override;

 protected:
  void do_encode(std::string_view text, std::vector<int32_t>& out, const ByteProgress&) const override {
    if (text.find('\0') != std::string_view::npos)
      throw InputError("the text has U+0000, which as token 0 of the byte tokenizer would end a document");
    const size_t old = out.size();
    out.resize(old + text.size());
    for (size_t i = 0; i < text.size(); ++i) out[old + i] = static_cast<unsigned char>(text[i]);
  }
  uint64_t fingerprint_bits() const override { return Hash64().add("byte").value(); }

 private:
  std::array<char, 256> bytes_;
  const EndTokens ends_{0, "", {0}};
};

// Byte-level BPE that merges nothing.
std::string ByteTokenizer::to_json() const {
  std::string vocabulary;
  char32_t next = 256;  // of the alphabet's letters for bytes that are not printable, as GPT-2 numbers them
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    if (byte > 0) vocabulary += ',';
    vocabulary += '"';
    if (byte == '"' || byte == '\\') vocabulary += '\\';
    append_utf8(printable ? byte : next++, vocabulary);
    vocabulary += fmt::format("\":{}", static_cast<int>(byte));
  }
  constexpr const char* kByteLevel =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false})";
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
      R"("pre_tokenizer":{0},"post_processor":null,"decoder":{0},"model":{{"type":"BPE","dropout":null,)"
      R"("unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
      R"("byte_fallback":false,"ignore_merges":false,"vocab":{{{1}}},"merges":[]}}}})"
      "\n",
      kByteLevel, vocabulary);
}

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

}  // namespace hydrac::runtime
