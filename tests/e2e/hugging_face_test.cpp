// Checkpoints as transformers loads them: hugging_face.py trains, loads and compares.
#include <gtest/gtest.h>

#include "tests/e2e/cli.h"
#include "tests/unit/support/command.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::e2e {
namespace {

test::CommandOutcome run_script(const std::string& name, const fs::path& folder) {
  const std::string root = test::source_dir();
  return test::run_command("HYDRAC_CACHE='" + shared_cache().string() + "' '" + test::python_with_packages() +
                           "' '" + root + "/tests/e2e/" + name + "' " HYDRAC_BUILT_PROGRAM " '" +
                           folder.string() + "' '" + root +
                           "/tests/unit/data/files/qwen2.tokenizer.json' 2>&1");
}

void run_or_skip(const std::string& name) {
  const Workplace place;
  const test::CommandOutcome script = run_script(name, place.path());
  constexpr int kPackagesMissing = 77, kNoPython = 127;
  if (script.code == kPackagesMissing || script.code == kNoPython) {
    GTEST_SKIP() << "nothing was compared with transformers: " << script.output
                 << "HYDRAC_PYTHON may name a Python that has it";
  }
  EXPECT_EQ(script.code, 0) << script.output;
}

TEST(HuggingFace, LoadsEveryFamilyAndComputesTheSameLogits) {
  run_or_skip("hugging_face.py");
}

TEST(HuggingFace, WritesConversationsAsTheSameIds) {
  run_or_skip("chat_templates.py");
}

// What has no name there says so, and by which key, before training and when it is saved.
TEST(HuggingFace, ModelsThatItDoesNotKnowSayWhy) {
  const Workplace place;
  const std::string why =
      "checkpoints have model_type hydrac, which transformers cannot load, because of model.position: Qwen3, "
      "Qwen2, Llama, Mistral, OLMo 2, Gemma, Gemma 2, Arcee, Granite, SmolLM3, OLMo 3, EXAONE 4, Ministral, "
      "Gemma 3, Phi-3, StableLM, Helium, GLM-4, GLM-4 0414, Nemotron, Cohere, Cohere 2, Falcon, GPT-NeoX, "
      "Phi, "
      "GPT-J, StarCoder2, ERNIE 4.5, Mixtral, Qwen3 MoE and OLMoE have rope";
  const Outcome checked = place.run({"check", "base.yaml", "model.norm=rmsnorm", "model.position=learned"});
  ASSERT_EQ(checked.code, 0) << checked.err;
  EXPECT_NE(checked.out.find("\n" + why + "\n"), std::string::npos) << checked.out;
  const Outcome trained = place.run({"run", "base.yaml", "model.norm=rmsnorm", "model.position=learned"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const size_t first = trained.out.find(why + "\n");
  EXPECT_NE(first, std::string::npos) << trained.out;
  EXPECT_EQ(trained.out.find(why, first + 1), std::string::npos) << "said more than once:\n" << trained.out;
  const Outcome known = place.run(
      {"check", "base.yaml", "model.norm=rmsnorm", "model.position=rope", "model.hidden_act=swiglu"});
  EXPECT_NE(known.out.find("\ncheckpoints are Hugging Face's llama: transformers loads them\n"),
            std::string::npos)
      << known.out;
}

// transformers chooses by the length of each text.
TEST(HuggingFace, CheckSaysWhatRopeScalingMakesOfTheLength) {
  const Workplace place;
  const auto said = [&](const Words& scaling) {
    return place
        .run(with({"check", "base.yaml", "model.rope_scaling.original_max_position_embeddings=15"}, scaling))
        .out;
  };
  const std::string factors = "_factor=[1, 2, 3, 4, 5, 6, 7, 8]";
  const Words longrope = {"model.rope_scaling.rope_type=longrope", "model.rope_scaling.short" + factors,
                          "model.rope_scaling.long" + factors};
  EXPECT_NE(said(longrope).find("\nrope has its long_factor: 16 tokens are more than 15\n"),
            std::string::npos);
  EXPECT_NE(said(with(longrope, {"model.rope_scaling.original_max_position_embeddings=16"}))
                .find("\nrope has its short_factor: 16 tokens are not more than 16\n"),
            std::string::npos);
  EXPECT_NE(said({"model.rope_scaling.rope_type=dynamic", "model.rope_scaling.factor=4"})
                .find("\nrope's base is 13101.7 for 16 tokens\n"),
            std::string::npos);
}

}  // namespace
}  // namespace hydrac::e2e
