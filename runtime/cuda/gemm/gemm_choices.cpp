#include "runtime/cuda/gemm/gemm_choices.h"

#include <fmt/format.h>

#include <charconv>

#include "runtime/cuda/library.h"

namespace hydrac::runtime::cuda {
namespace {

constexpr std::size_t kDigits = 16;  // of a word of 64 bits

template <class Value>
Value config(const abi::cublasLtMatmulAlgo_t& algorithm, int attribute) {
  Value value = 0;
  std::size_t written = 0;
  cublaslt().cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written);
  return value;
}

// Takes the fields of a choice's text off its front; false where the text has none.
struct Reader {
  std::string_view rest;

  bool algorithm(abi::cublasLtMatmulAlgo_t& algorithm) {
    for (std::uint64_t& word : algorithm.data) {
      if (rest.size() < kDigits) return false;
      const auto [stop, error] = std::from_chars(rest.data(), rest.data() + kDigits, word, 16);
      if (error != std::errc() || stop != rest.data() + kDigits) return false;
      rest.remove_prefix(kDigits);
    }
    return true;
  }
  template <class Value>
  bool number(Value& value) {
    if (rest.empty() || rest[0] != ' ') return false;
    const auto [stop, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), value);
    if (error != std::errc()) return false;
    rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
    return true;
  }
  bool done() const { return rest.empty(); }
};

}  // namespace

std::string recorded_text(const GemmChoice& choice) {
  std::string text;
  for (std::uint64_t word : choice.algorithm.data) text += fmt::format("{:016x}", word);
  return text + fmt::format(" {}", choice.workspace_bytes);
}

std::string to_text(const GemmChoice& choice) {
  return fmt::format("{} {:.4f} {}", recorded_text(choice), choice.ms, choice.candidates);
}

std::optional<GemmChoice> parse_recorded(std::string_view text) {
  Reader reader{text};
  GemmChoice choice;
  if (!reader.algorithm(choice.algorithm) || !reader.number(choice.workspace_bytes) || !reader.done())
    return std::nullopt;
  return choice;
}

std::optional<GemmChoice> parse_choice(std::string_view text) {
  Reader reader{text};
  GemmChoice choice;
  if (!reader.algorithm(choice.algorithm) || !reader.number(choice.workspace_bytes) ||
      !reader.number(choice.ms) || !reader.number(choice.candidates) || !reader.done())
    return std::nullopt;
  return choice;
}

std::string describe(const GemmChoice& choice) {
  const auto& algorithm = choice.algorithm;
  return fmt::format(
      "algorithm {}, tile {}, cluster {}, stages {}, split-k {}, swizzle {}, {} B workspace, {:.4f} ms, best "
      "of {}",
      config<std::int32_t>(algorithm, abi::kConfigId), config<std::uint32_t>(algorithm, abi::kConfigTile),
      config<std::uint16_t>(algorithm, abi::kConfigCluster),
      config<std::uint32_t>(algorithm, abi::kConfigStages),
      config<std::int32_t>(algorithm, abi::kConfigSplitK),
      config<std::uint32_t>(algorithm, abi::kConfigSwizzle), choice.workspace_bytes, choice.ms,
      choice.candidates);
}

std::optional<GemmChoice> GemmChoices::find(const std::string& key) const {
  const std::optional<std::string> text = file_.find(key);
  return text ? parse_choice(*text) : std::nullopt;
}

void GemmChoices::remember(const std::string& key, const GemmChoice& choice) {
  file_.remember(key, to_text(choice));
}

}  // namespace hydrac::runtime::cuda
