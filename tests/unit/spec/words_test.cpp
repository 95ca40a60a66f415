// Enums, scalars, and the table of targets.
#include <gtest/gtest.h>

#include <set>

#include "spec/keys/enums.h"
#include "spec/keys/key_table.h"
#include "spec/keys/optimizer_table.h"
#include "spec/reader/scalar.h"
#include "support.h"
#include "targets/target.h"

namespace hydrac::spec {
namespace {

template <class E>
void expect_spellings_round_trip() {
  size_t index = 0;
  std::set<std::string_view> seen;
  for (const EnumValue& value : enum_values(E{})) {
    EXPECT_EQ(enum_from<E>(value.spelling), static_cast<E>(index));
    EXPECT_EQ(to_string(static_cast<E>(index)), value.spelling);
    EXPECT_TRUE(seen.insert(value.spelling).second) << value.spelling;
    EXPECT_FALSE(value.doc.empty()) << value.spelling;
    ++index;
  }
  EXPECT_GT(index, 0u);
  EXPECT_EQ(enum_from<E>("nonsense"), std::nullopt);
}

// That each has a row is looked at where this compiles; its defaults in words stand beside the key.
TEST(Optimizers, HaveTheDefaultsThatTheDocsSay) {
  const auto words = [](std::string_view path) { return std::string(find_key(path)->derived); };
  for (const OptimizerRow& row : kOptimizers) {
    const std::string name(to_string(row.name));
    EXPECT_NE(words("train.optimizer.learning_rate").find(name), std::string::npos) << name;
    EXPECT_NE(words("train.optimizer.weight_decay").find(name), std::string::npos) << name;
    EXPECT_EQ(words("train.optimizer.betas").find(name) != std::string::npos, row.reads_betas) << name;
    diag::Diagnostics diagnostics;
    const auto spec = load_spec_text("spec.yaml", kSmall,
                                     std::vector<std::string>{"train.optimizer.name=" + name}, diagnostics);
    ASSERT_TRUE(spec);
    EXPECT_EQ(spec->train.optimizer.learning_rate, row.learning_rate);
    EXPECT_EQ(spec->train.optimizer.weight_decay, row.weight_decay);
    EXPECT_EQ(spec->train.optimizer.betas, row.betas);
  }
}

TEST(Enums, SpellingsRoundTrip) {
#define ENUM(type) expect_spellings_round_trip<type>();
#define VALUE(name, spelling, doc)
#define END_ENUM
#include "spec/keys/enums.def"
#undef ENUM
#undef VALUE
#undef END_ENUM
  EXPECT_EQ(to_string(AttentionKernel::auto_), "auto");
}

Scalar plain(const std::string& text) {
  return scalar_value({.kind = Node::Kind::scalar, .text = text});
}

TEST(Scalar, FollowsTheCoreSchema) {
  EXPECT_TRUE(std::holds_alternative<Null>(plain("~")));
  EXPECT_EQ(std::get<bool>(plain("True")), true);
  EXPECT_EQ(std::get<int64_t>(plain("-12")), -12);
  EXPECT_EQ(std::get<int64_t>(plain("0xff")), 255);
  EXPECT_EQ(std::get<int64_t>(plain("9223372036854775807")), INT64_MAX);
  EXPECT_TRUE(std::holds_alternative<Overflow>(plain("9223372036854775808")));
  EXPECT_EQ(std::get<double>(plain("1e-4")), 1e-4);
  EXPECT_EQ(std::get<double>(plain("+.5")), 0.5);
  EXPECT_EQ(std::get<double>(plain("5.")), 5.0);
  EXPECT_EQ(std::get<double>(plain("1e999")), std::numeric_limits<double>::infinity());
}

TEST(Scalar, TellsTooSmallFromTooLarge) {
  EXPECT_TRUE(std::holds_alternative<Underflow>(plain("1e-999")));
  EXPECT_TRUE(std::holds_alternative<Underflow>(plain("-1e-999")));
  EXPECT_EQ(std::get<double>(plain("-1e999")), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::get<double>(plain("0e-999")), 0);
}

TEST(Scalar, TakesEverythingElseForText) {
  for (const std::string text :
       {"6_000", "4k",  "1e-4x", ".5.", "0x",   "0b1",  "1e",   "e5",  ".",   "-",  "+",
        "1 2",   "yes", "on",    "1,5", "0xfg", "-0x1", "1:30", "--1", "nan", "inf"})
    EXPECT_TRUE(std::holds_alternative<std::string>(plain(text))) << text;
  EXPECT_TRUE(std::holds_alternative<std::string>(
      scalar_value({.kind = Node::Kind::scalar, .text = "12", .quoted = true})));
}

TEST(Scalar, SaysWhichNumberWasMeant) {
  EXPECT_EQ(meant_number("6_000"), "6000");
  EXPECT_EQ(meant_number("1,000,000"), "1000000");
  EXPECT_EQ(meant_number("4k"), "4000 or 4096");
  EXPECT_EQ(meant_number("0.5k"), "500 or 512");
  EXPECT_EQ(meant_number("2M"), "2000000");
  EXPECT_EQ(meant_number("1.5B"), "1500000000");
  EXPECT_EQ(meant_number("10%"), "0.1");
  EXPECT_EQ(meant_number("1e-4x"), "1e-4");
  EXPECT_EQ(meant_number("0x"), "");
  EXPECT_EQ(meant_number("abc"), "");
}

}  // namespace
}  // namespace hydrac::spec

namespace hydrac::targets {
namespace {

TEST(Targets, AreFoundByNameAndByArch) {
  ASSERT_NE(find("cpu"), nullptr);
  EXPECT_TRUE(find("cpu")->is_cpu());
  ASSERT_NE(find("h200"), nullptr);
  EXPECT_EQ(find("h200")->arch, "sm_90");
  EXPECT_EQ(find("h200")->bf16_tflops, 989.4);  // dense; 1979 is the sparse figure
  ASSERT_NE(find("sm_86"), nullptr);
  EXPECT_TRUE(find("sm_86")->has_bf16());
  EXPECT_EQ(find("sm_86")->memory_gib, 0);
  EXPECT_EQ(find("sm_90")->sms, find("h100")->sms);
  EXPECT_EQ(find("h100-pcie")->sms, 114);
  EXPECT_EQ(find("auto"), nullptr);
  EXPECT_EQ(find("H200"), nullptr);
}

TEST(Targets, PeaksAgreeWithCapabilities) {
  std::set<std::string_view> names;
  for (const Target& target : all()) {
    EXPECT_TRUE(names.insert(target.name).second) << target.name;
    if (target.memory_gib == 0) continue;  // known by arch only
    EXPECT_EQ(target.tf32_tflops > 0, target.has_tf32()) << target.name;
    EXPECT_EQ(target.bf16_tflops > 0, target.has_bf16()) << target.name;
    EXPECT_EQ(target.fp8_tflops > 0, target.has_fp8()) << target.name;
    EXPECT_EQ(target.fp16_tflops > 0, target.has_fp16()) << target.name;
    EXPECT_GT(target.bandwidth_gbs, 0) << target.name;
    EXPECT_GT(target.memory_gib, 0) << target.name;
    EXPECT_NE(find(target.arch), nullptr) << target.name;
  }
}

}  // namespace
}  // namespace hydrac::targets
