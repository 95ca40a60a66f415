// The tokenizer whose ids are the bytes themselves.
#include <fmt/core.h>

#include <array>

#include "runtime/data/hash.h"
#include "runtime/data/tokenizer.h"
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
  std::optional<int32_t> end_of_text() const override { return 0; }
  bool is_special(int32_t id) const override { return id == 0; }
  std::string_view name() const override { return "byte"; }
  std::string to_json() const override { return "{\"hydrac_tokenizer\":\"byte\"}\n"; }

 protected:
  void do_encode(std::string_view text, std::vector<int32_t>& out, const ByteProgress&) const override {
    const size_t old = out.size();
    out.resize(old + text.size());
    for (size_t i = 0; i < text.size(); ++i) out[old + i] = static_cast<unsigned char>(text[i]);
  }
  uint64_t fingerprint_bits() const override { return Hash64().add("byte").value(); }

 private:
  std::array<char, 256> bytes_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

}  // namespace hydrac::runtime
