#include "spec/keys/other_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "diag/suggest.h"
#include "targets/target.h"

namespace hydrac::spec {

std::span<const OtherName> other_names() {
#define OTHER(theirs, ours, note) OtherName{#theirs, ours, note},
#define OTHER_WORD(key, theirs, note)
  static constexpr auto names = std::to_array<OtherName>({
#include "spec/keys/other_names.def"
  });
#undef OTHER
#undef OTHER_WORD
  return names;
}

std::span<const OtherWord> other_words() {
#define OTHER(theirs, ours, note)
#define OTHER_WORD(key, theirs, note) OtherWord{key, theirs, note},
  static constexpr auto words = std::to_array<OtherWord>({
#include "spec/keys/other_names.def"
  });
#undef OTHER
#undef OTHER_WORD
  return words;
}

std::string instead_of_name(std::string_view theirs) {
  const auto found = std::ranges::find(other_names(), theirs, &OtherName::theirs);
  if (found == other_names().end()) return "";
  return found->note.empty() ? fmt::format("did you mean {}?", found->ours) : std::string(found->note);
}

std::string instead_of_word(std::string_view key, std::string_view theirs) {
  const auto found = std::ranges::find_if(
      other_words(), [&](const OtherWord& word) { return word.key == key && word.theirs == theirs; });
  return found == other_words().end() ? "" : std::string(found->note);
}

namespace {

// "RTX 5080" and "rtx-5080" as "rtx5080".
std::string folded(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') letters += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
  }
  for (const std::string_view maker : {"nvidia", "geforce"})
    if (letters.starts_with(maker)) letters.erase(0, maker.size());
  return letters;
}

std::string by_architecture(const targets::OtherGpu& gpu) {
  const std::string arch = fmt::format("sm_{}", gpu.capability);
  if (targets::find(arch) != nullptr)
    return fmt::format(
        "{} would plan for it; optimizations.memory_limit, or --memory, says how much memory it has", arch);
  constexpr int kOldest = 75;
  return fmt::format(
      "it is {}, {}", arch,
      gpu.capability < kOldest ? "and GPUs before sm_75 are not supported" : "which is not supported yet");
}

}  // namespace

std::string instead_of_target(std::string_view name) {
  const std::string letters = folded(name);
  if (letters == "gpu") return "did you mean cuda?";
  std::vector<std::string> names = {"auto", "cuda"};
  for (const targets::Target& target : targets::all()) {
    if (folded(target.name) == letters) return fmt::format("did you mean {}?", target.name);
    names.emplace_back(target.name);
  }
  for (const targets::OtherGpu& gpu : targets::other_gpus())
    if (gpu.name == letters) return by_architecture(gpu);
  const std::string meant = diag::nearest(name, names);
  return meant.empty() ? fmt::format("write {}", diag::one_of(names))
                       : fmt::format("did you mean {}?", meant);
}

}  // namespace hydrac::spec
