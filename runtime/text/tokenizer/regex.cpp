#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/tokenizer/regex.h"
#include "runtime/base/quote.h"

#include <fmt/core.h>
#include <pcre2.h>

#include <array>
#include <new>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

constexpr size_t kMaxPattern = size_t{64} << 10;  // bytes
constexpr uint32_t kMaxGroups = 100;              // nested
constexpr size_t kJitStack = size_t{1} << 20;     // bytes, grown on demand from 32 KiB
constexpr uint32_t kHeapLimit = 64 << 10;         // KiB, of the interpreter

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct Regex::Scratch::Memory {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, kJitStack, nullptr);
  Memory() {
    if (match == nullptr || context == nullptr) throw std::bad_alloc();
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_heap_limit(context, kHeapLimit);
  }
  ~Memory() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }
};

Regex::Scratch::Scratch() : memory_(std::make_unique<Memory>()) {}
Regex::Scratch::~Scratch() = default;
Regex::Scratch::Scratch(Scratch&&) noexcept = default;
Regex::Scratch& Regex::Scratch::operator=(Scratch&&) noexcept = default;

struct Regex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view ruby_pattern, const std::string& shown_as)
    : code_(std::make_unique<Code>()), shown_as_(shown_as) {
  if (ruby_pattern.size() > kMaxPattern) {
    throw InputError(fmt::format("{}: a regular expression of {} bytes; at most {} are read", shown_as,
                                 ruby_pattern.size(), kMaxPattern));
  }
  const std::string pattern = ruby_to_pcre2(ruby_pattern, shown_as);
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxGroups);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context.get());
  if (code_->code == nullptr) {
    throw InputError(fmt::format("{}: the regular expression \"{}\" is malformed at its byte {}: {}",
                                 shown_as, escaped(ruby_pattern), offset, error_text(error)));
  }
  // If the JIT cannot be had (a hardened kernel), pcre2_match() interprets, with the same matches.
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<Regex::Match> Regex::find(std::string_view text, size_t from, Scratch& scratch) const {
  Scratch::Memory& memory = *scratch.memory_;
  const auto search = [&](uint32_t options) {
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, memory.match, memory.context);
  };
  int result = search(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = search(PCRE2_NO_JIT);  // its stack is the heap
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw InputError(fmt::format("{}: a regular expression failed at byte {} of the text: {}", shown_as_,
                                 from, error_text(result)));
  }
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(memory.match);
  return Match{range[0], range[1]};
}

}  // namespace hydrac::runtime
