#include "spec/keys/schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "spec/keys/key_table.h"
#include "support.h"

namespace hydrac::spec {
namespace {

using Json = nlohmann::json;

TEST(Schema, IsTheCheckedInFile) {
  const auto path = source_dir() / "specs/schema.json";
  if (std::getenv("HYDRAC_REWRITE_EXPECTED") != nullptr) std::ofstream(path) << json_schema();
  EXPECT_EQ(json_schema(), read_file(path)) << "run `hydrac schema > specs/schema.json`";
}

void expect_strict(const Json& schema) {
  if (schema.is_object() && schema.value("type", "") == "object") {
    EXPECT_EQ(schema["additionalProperties"], false);
    EXPECT_TRUE(schema["patternProperties"].contains("^x-"));
    for (const auto& [name, property] : schema["properties"].items()) {
      EXPECT_TRUE(property.contains("description")) << name;
      expect_strict(property);
    }
  }
}

TEST(Schema, IsDraft7AndStrictEverywhere) {
  const Json schema = Json::parse(json_schema());
  EXPECT_EQ(schema["$schema"], "http://json-schema.org/draft-07/schema#");
  expect_strict(schema);
}

TEST(Schema, HasEveryKeyOfTheTable) {
  const Json schema = Json::parse(json_schema());
  for (const KeyRow& row : key_rows()) {
    std::string pointer;
    for (size_t start = 0; start <= row.path.size();) {
      const size_t dot = std::min(row.path.find('.', start), row.path.size());
      pointer += "/properties/" + row.path.substr(start, dot - start);
      start = dot + 1;
    }
    EXPECT_TRUE(schema.contains(Json::json_pointer(pointer))) << pointer;
  }
}

TEST(Schema, SaysTypesRangesAndWords) {
  const Json model = Json::parse(json_schema())["properties"]["model"]["properties"];
  EXPECT_EQ(model["hidden_size"], Json::parse(R"({"type": "integer", "minimum": 1, "maximum": 65536,
    "description": "Width of the residual stream. Required."})"));
  EXPECT_EQ(model["dropout"], Json::parse(R"({"type": "number", "minimum": 0.0, "exclusiveMaximum": 1.0,
    "default": 0.0, "description": "Dropout of the embedding and of each residual branch."})"));
  EXPECT_EQ(model["norm"]["enum"], Json({"layernorm", "rmsnorm"}));
  EXPECT_EQ(model["norm"]["default"], "rmsnorm");
}

TEST(KeyDocs, NameEveryKey) {
  const std::string markdown = keys_markdown();
  for (const KeyRow& row : key_rows()) {
    EXPECT_EQ(key_help(row.path).find(row.path + "\n  " + std::string(row.doc)), 0u) << row.path;
    EXPECT_NE(markdown.find("| `" + row.name + "` |"), std::string::npos) << row.path;
  }
  for (const SectionRow& row : section_rows())
    EXPECT_NE(markdown.find("\n## " + row.path + "\n"), std::string::npos) << row.path;
}

TEST(KeyDocs, HelpWithAKeyOrASection) {
  EXPECT_EQ(key_help("learning_rate"), key_help("train.optimizer.learning_rate"));
  const std::string norm = key_help("model.norm");
  EXPECT_NE(norm.find("\n  takes: layernorm, rmsnorm\n  default: rmsnorm\n    layernorm: "),
            std::string::npos)
      << norm;
  EXPECT_NE(key_help("lr_scheduler").find("train.lr_scheduler.warmup_steps\n"), std::string::npos);
  EXPECT_EQ(key_help("zzz"), "");
}

TEST(KeyTable, IsSound) {
  for (const KeyRow& row : key_rows()) {
    EXPECT_EQ(find_key(row.path), &row) << "written twice: " << row.path;
    EXPECT_TRUE(row.section.empty() || find_section(row.section) != nullptr) << row.path;
    EXPECT_TRUE(row.doc.ends_with('.')) << row.path;
  }
  EXPECT_EQ(find_key("model"), nullptr);
  EXPECT_EQ(find_section("model.rope_scaling")->parent, "model");
}

}  // namespace
}  // namespace hydrac::spec
