// The folder of an encoder of replies against what a program was made for.
#include <gtest/gtest.h>

#include "runtime/encoder/open_encoder.h"
#include "runtime/error.h"
#include "tests/unit/support/bert_folder.h"

namespace hydrac::runtime {
namespace {

namespace fs = std::filesystem;
using test::spill;

class OpenEncoderTest : public testing::Test {
 protected:
  OpenEncoderTest() {
    bert_.draw(3);
    bert_.write(folder());
    made_for_ = {folder(), static_cast<int64_t>(test::BertFolder::vocabulary().size()), false, "shape", {}};
    spill(folder() / "modules.json",
          R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
              {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])");
    fs::create_directory(folder() / "1_Pooling");
    spill(folder() / "1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
    made_for_.facts = encoder_facts(folder());
  }

  fs::path folder() const { return place_ / "bert"; }
  // Of what `text` as the file makes of the folder; "" where it is the same encoder.
  std::string error(const std::string& file, const std::string& text) const {
    const std::string before = test::slurp(folder() / file);
    spill(folder() / file, text);
    std::string message;
    try {
      open_encoder(made_for_);
    } catch (const InputError& error) {
      message = std::string(error.what()).substr(folder().string().size() + 1);
    }
    spill(folder() / file, before);
    return message;
  }

  const test::TempDir place_;
  test::BertFolder bert_;
  EncoderFolder made_for_;
};

TEST_F(OpenEncoderTest, GivesIdsAndTheIdentityOfFilesWhereverTheyLie) {
  const OpenedEncoder opened = open_encoder(made_for_);
  EXPECT_EQ(opened.encoder.weights, folder());
  EXPECT_EQ(opened.encoder.ids("ab", 10).size(), 4u);
  EncoderFolder moved = made_for_;
  moved.folder = place_ / "moved";
  fs::rename(folder(), moved.folder);
  EXPECT_EQ(open_encoder(moved).identity, opened.identity);
  bert_.tensors.clear();
  bert_.draw(4);
  bert_.write_weights(moved.folder);
  EXPECT_NE(open_encoder(moved).identity, opened.identity);
}

TEST_F(OpenEncoderTest, RefusesOtherFactsThanTheProgramWasMadeFor) {
  nlohmann::json config = bert_.config();
  config["num_attention_heads"] = 6;
  EXPECT_EQ(error("config.json", config.dump()),
            "config.json: num_attention_heads is 6 here, and 3 in the encoder that the program was made for");
  EXPECT_EQ(
      error("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})"),
      "1_Pooling/config.json: pooling_mode_mean_tokens is nothing here, and true in the encoder that the "
      "program was made for");
  EXPECT_EQ(
      error("modules.json", "[]"),
      "modules.json: module 0 is nothing here, and \"sentence_transformers.models.Transformer \" in the "
      "encoder that the program was made for");
  EXPECT_EQ(error("config.json", "{").substr(0, 28), "config.json: not valid JSON:");
}

TEST_F(OpenEncoderTest, TakesFilesThatSayMoreOrTheSameInOtherWords) {
  nlohmann::json config = bert_.config();
  config["_name_or_path"] = "elsewhere";
  config["num_hidden_layers"] = 2;
  EXPECT_EQ(error("config.json", config.dump(4)), "");
  EXPECT_EQ(
      error(
          "1_Pooling/config.json",
          R"({"word_embedding_dimension": 48, "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false})"),
      "");
}

}  // namespace
}  // namespace hydrac::runtime
