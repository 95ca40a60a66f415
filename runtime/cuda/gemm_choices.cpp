#include "runtime/cuda/gemm_choices.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "runtime/cuda/cache_file.h"
#include "runtime/cuda/library.h"

namespace hydrac::runtime::cuda {
namespace {

constexpr int kDigits = 16;  // of a word of 64 bits

template <class Value>
Value config(const abi::cublasLtMatmulAlgo_t& algorithm, int attribute) {
  Value value = 0;
  std::size_t written = 0;
  cublaslt().cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written);
  return value;
}

}  // namespace

std::string to_text(const GemmChoice& choice) {
  std::string text;
  for (std::uint64_t word : choice.algorithm.data) text += fmt::format("{:016x}", word);
  return text + fmt::format(" {} {:.4f} {}", choice.workspace_bytes, choice.ms, choice.candidates);
}

std::optional<GemmChoice> parse_choice(std::string_view text) {
  GemmChoice choice;
  const char *at = text.data(), *end = text.data() + text.size();
  for (std::uint64_t& word : choice.algorithm.data) {
    if (end - at < kDigits) return std::nullopt;
    const auto [stop, error] = std::from_chars(at, at + kDigits, word, 16);
    if (error != std::errc() || stop != at + kDigits) return std::nullopt;
    at = stop;
  }
  const auto number = [&](auto& value) {
    if (at == end || *at != ' ') return false;
    const auto [stop, error] = std::from_chars(at + 1, end, value);
    at = stop;
    return error == std::errc();
  };
  if (!number(choice.workspace_bytes) || !number(choice.ms) || !number(choice.candidates) || at != end)
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

GemmChoices::GemmChoices(std::filesystem::path file) : file_(std::move(file)) {
  read_file();
}

void GemmChoices::read_file() {
  if (file_.empty()) return;
  std::istringstream lines(read_whole(file_).value_or(""));
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    if (const auto choice = parse_choice(std::string_view(line).substr(tab + 1)))
      choices_.try_emplace(line.substr(0, tab), *choice);
  }
}

std::optional<GemmChoice> GemmChoices::find(const std::string& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

void GemmChoices::remember(const std::string& key, const GemmChoice& choice) {
  choices_[key] = choice;
  if (file_.empty()) return;
  read_file();
  std::string text;
  for (const auto& [line_key, line_choice] : choices_) text += line_key + '\t' + to_text(line_choice) + '\n';
  write_whole(file_, text);
}

}  // namespace hydrac::runtime::cuda
