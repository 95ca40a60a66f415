// The table of what other tools call things.
#include "spec/keys/other_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "spec/keys/key_table.h"
#include "spec/reader/bind.h"
#include "spec/reader/convert.h"
#include "support.h"
#include "targets/target.h"

namespace hydrac::spec {
namespace {

bool is_known(const std::string& path) {
  return find_key(path) != nullptr || find_section(path) != nullptr;
}

// Words such as train.max_steps whose first part is a section.
std::vector<std::string> keys_in(const std::string& note) {
  static const std::regex dotted("[a-z][a-z0-9_]*(\\.[a-z0-9_]+)+");
  std::vector<std::string> keys;
  for (std::sregex_iterator match(note.begin(), note.end(), dotted), end; match != end; ++match)
    if (find_section(match->str().substr(0, match->str().find('.'))) != nullptr) keys.push_back(match->str());
  return keys;
}

TEST(OtherNames, NameKeysThatExist) {
  std::set<std::string_view> seen;
  for (const OtherName& name : other_names()) {
    SCOPED_TRACE(name.theirs);
    EXPECT_TRUE(seen.insert(name.theirs).second) << "written twice";
    EXPECT_TRUE(!name.ours.empty() || !name.note.empty());
    if (!name.ours.empty()) {
      EXPECT_TRUE(is_known(std::string(name.ours))) << name.ours;
    }
    // model.layers.0 is a pattern of parameters.
    for (const std::string& key : keys_in(std::string(name.note)))
      EXPECT_TRUE(is_known(key) || key.starts_with("model.layers")) << key;
  }
  EXPECT_GE(seen.size(), 200u);
}

TEST(OtherNames, ArePlacesWhereOursWouldBeNewWords) {
  // At the top, where a foreign spec has its keys.
  for (const OtherName& name : other_names())
    EXPECT_FALSE(is_known(std::string(name.theirs))) << name.theirs << " is a key of hydrac's";
}

TEST(OtherNames, AreAnsweredWhereverTheyStand) {
  EXPECT_EQ(meant_key("seed"), "did you mean train.seed?");
  EXPECT_EQ(meant_key("train.num_train_epochs"), "did you mean train.epochs?");
  EXPECT_NE(meant_key("wandb_project").find("metrics.jsonl"), std::string::npos);
  EXPECT_EQ(meant_key("load_in_4bit"), "write adapter: {type: lora, base: nf4}");
}

TEST(OtherNames, NearKeysAreNamedInAllTheirPlaces) {
  EXPECT_EQ(meant_key("rope_theta"), "did you mean model.rope_theta?");
  EXPECT_EQ(meant_key("dropout"), "did you mean model.dropout or adapter.dropout?");
  EXPECT_EQ(meant_key("optimizations.fp9_attention"), meant_key("optimizations.zzz")) << "another number";
}

TEST(OtherWords, AreValuesOfKeysThatDoNotTakeThem) {
  for (const OtherWord& word : other_words()) {
    SCOPED_TRACE(word.theirs);
    ASSERT_NE(find_key(word.key), nullptr) << word.key;
    const Loaded loaded = load(kSmall, {fmt::format("{}={}", word.key, word.theirs)});
    ASSERT_TRUE(loaded.diagnostics.has_errors());
    EXPECT_NE(loaded.text().find(fmt::format("help: {}", word.note)), std::string::npos) << loaded.text();
    for (const std::string& key : keys_in(std::string(word.note))) EXPECT_TRUE(is_known(key)) << key;
  }
}

TEST(OtherGpus, AreAnsweredByTheirArchitecture) {
  for (const targets::OtherGpu& gpu : targets::other_gpus()) {
    SCOPED_TRACE(gpu.name);
    const auto is_it = [&](const targets::Target& target) { return target.name == gpu.name; };
    EXPECT_TRUE(std::ranges::none_of(targets::all(), is_it));
    const std::string arch = fmt::format("sm_{}", gpu.capability), help = instead_of_target(gpu.name);
    EXPECT_NE(help.find(arch), std::string::npos) << help;
    EXPECT_EQ(help.find("would plan") != std::string::npos, targets::find(arch) != nullptr) << help;
  }
  EXPECT_EQ(instead_of_target("NVIDIA GeForce RTX 4090"), "did you mean rtx4090?");
  EXPECT_EQ(instead_of_target("A100 40GB"), "did you mean a100-40gb?");
}

}  // namespace
}  // namespace hydrac::spec
