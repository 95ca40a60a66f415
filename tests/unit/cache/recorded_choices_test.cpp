#include "runtime/cache/recorded_choices.h"

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace hydrac::runtime {
namespace {

RecordedChoices some_choices() {
  RecordedChoices choices;
  choices.set("blas", "library", "onednn");
  choices.set("blas", "threads", "2");
  choices.set("kernels", "compiler", "12.2.0");
  return choices;
}

TEST(RecordedChoices, SurviveTheirJson) {
  const RecordedChoices choices = some_choices();
  EXPECT_EQ(choices.to_json(),
            "{\n  \"blas\": {\n    \"library\": \"onednn\",\n    \"threads\": \"2\"\n  },\n"
            "  \"kernels\": {\n    \"compiler\": \"12.2.0\"\n  }\n}\n");
  EXPECT_EQ(RecordedChoices::from_json(choices.to_json(), "choices.json"), choices);
  EXPECT_TRUE(RecordedChoices::from_json("{}", "choices.json").empty());
}

TEST(RecordedChoices, WhatIsNoSuchJsonIsRefusedByName) {
  EXPECT_THROW(RecordedChoices::from_json("{\"blas\": {", "run/choices.json"), InputError);
  for (const char* text : {"[]", "{\"blas\": 1}", "{\"blas\": {\"library\": 1}}"}) {
    try {
      RecordedChoices::from_json(text, "run/choices.json");
      FAIL() << text;
    } catch (const InputError& error) {
      EXPECT_STREQ(error.what(),
                   "run/choices.json: is no JSON object of sections of text; the file is damaged");
    }
  }
}

TEST(RecordedChoices, DifferencesAreNamed) {
  RecordedChoices now = some_choices();
  EXPECT_TRUE(differences(some_choices(), now).empty());
  now.set("blas", "library", "openblas");
  RecordedChoices gpu;
  gpu.set("cublaslt", "gpu", "NVIDIA H200");
  now.add(gpu);
  EXPECT_EQ(differences(some_choices(), now),
            (std::vector<std::string>{"blas library: onednn in the checkpoint, openblas now",
                                      "cublaslt gpu: nothing in the checkpoint, NVIDIA H200 now"}));
}

}  // namespace
}  // namespace hydrac::runtime
