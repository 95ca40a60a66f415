// Which files of an emitted program a change of the spec touches.
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

const std::string kOneNumber = "changed  hyper.h\nchanged  identity.inc\nchanged  spec.inc\n";

// Which files a change of each kind of key may touch. A reviewer who changes a learning rate wants to read
// one number.
TEST(Emit, AChangeOfAKeyTouchesFewFiles) {
  const Workplace place;
  ASSERT_EQ(place.run({"emit", "base.yaml", "-o", "program"}).code, 0);
  const std::map<std::string, std::string> touched = {
      {"train.max_steps=24", "changed  hyper.h\nchanged  settings.cpp\nchanged  spec.inc\n"},
      {"train.save_steps=3", "changed  settings.cpp\nchanged  spec.inc\n"},
      {"train.seed=7",
       "changed  identity.inc\nchanged  layout.cpp\nchanged  settings.cpp\nchanged  "
       "spec.inc\n"},
      {"train.optimizer.learning_rate=1e-3", kOneNumber},
      {"train.optimizer.weight_decay=0.05", kOneNumber},
      {"train.max_grad_norm=0.5", kOneNumber},
      {"train.optimizer.name=lion",
       "changed  PLAN.md\nchanged  calls.inc\nchanged  hyper.h\nchanged  identity.inc\nchanged  "
       "kernels/kernels.h\nchanged  kernels/update.cpp\nchanged  "
       "layout.cpp\nchanged  memory.h\nchanged  optimizer.cpp\nchanged  spec.inc\n"},
      // The width of a head, in what attention's kernels share and in their scratch memory.
      {"model.hidden_size=128",
       "changed  PLAN.md\nchanged  calls.inc\nchanged  dims.h\nchanged  hyper.h\nchanged  "
       "identity.inc\nchanged  "
       "kernels/attention.h\nchanged  "
       "kernels/attention_backward.cpp\nchanged  kernels/attention_forward.cpp\nchanged  "
       "kernels/attention_forward_evaluate.cpp\nchanged  kernels/attention_forward_generate.cpp\nchanged  "
       "kernels/block_backward.cpp\nchanged  layout.cpp\nchanged  "
       "memory.h\nchanged  program.cpp\nchanged  settings.cpp\nchanged  spec.inc\n"},
      {"model.num_hidden_layers=3",
       "changed  PLAN.md\nchanged  calls.inc\nchanged  dims.h\nchanged  hyper.h\nchanged  identity.inc\n"
       "changed  layout.cpp\nchanged  memory.h\nchanged  settings.cpp\nchanged  spec.inc\n"},
  };
  for (const auto& [override, files] : touched)
    EXPECT_EQ(changed_files(place, {override}), files) << override;
}

// The same on a GPU, where a precision is the type of most tensors, and an attention by cuDNN has no kernels.
TEST(Emit, AChangeOfPrecisionOrAttentionTouchesWhatComputesWithIt) {
  const Workplace place;
  const auto words = [](const std::string& verb, const std::string& precision, const std::string& attention) {
    return Words{verb,
                 "base.yaml",
                 "target=h100",
                 "model.num_attention_heads=2",
                 "model.num_key_value_heads=2",
                 "model.attention_dropout=0",
                 "optimizations.loss=fused_linear",
                 "optimizations.precision=" + precision,
                 "optimizations.attention=" + attention};
  };
  const auto changes = [&](const std::string& precision, const std::string& attention) {
    Words diff = words("diff", precision, attention);
    diff.insert(diff.begin() + 2, "program");
    diff.push_back("--stat");
    return std::regex_replace(place.run(diff).out, std::regex("  [+][0-9]+ -[0-9]+\n"), "\n");  // names alone
  };
  ASSERT_EQ(place.run(with(words("emit", "bf16", "cudnn"), {"-o", "program"})).code, 0);
  const std::string attention = changes("bf16", "generated");
  EXPECT_NE(attention.find("missing  kernels/attention_forward.cu\n"), std::string::npos) << attention;
  EXPECT_NE(attention.find("missing  kernels/attention_key_gradients.cu\n"), std::string::npos) << attention;
  for (const char* other :
       {"dims.h", "layout.cpp", "optimizer.cpp", "kernels/block.cu", "kernels/head.cu", "kernels/update.cu"})
    EXPECT_EQ(attention.find(std::string("  ") + other + "\n"), std::string::npos) << attention;
  const std::string precision = changes("fp16", "cudnn");
  for (const char* other :
       {"CMakeLists.txt", "dims.h", "backward.cpp", "evaluate.cpp", "generate.cpp", "program.h", "step.h"})
    EXPECT_EQ(precision.find(std::string("  ") + other + "\n"), std::string::npos) << precision;
  EXPECT_NE(precision.find("changed  kernels/block.cu\n"), std::string::npos) << precision;
}

}  // namespace
}  // namespace hydrac::e2e
