// Records in the shapes of published data sets.
#include <nlohmann/json.hpp>

#include "data_test.h"
#include "runtime/text/chat_record.h"

namespace hydrac::runtime {
namespace {

using Json = nlohmann::ordered_json;

ChatRecord read(const char* record, const RecordNames& names = {}, bool has_template = true) {
  return read_chat_record(Json::parse(record), names, has_template);
}
std::string error(const char* record, const RecordNames& names = {}) {
  return input_error([&] { read(record, names); });
}

const std::string kMessages = R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])";

TEST(ChatRecords, OfEveryShapeBecomeMessages) {
  EXPECT_EQ(
      read(
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "id": 7})")
          .messages.dump(),
      kMessages);
  EXPECT_EQ(read(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})")
                .messages.dump(),
            kMessages);
  EXPECT_EQ(read(R"({"instruction": "a", "input": "", "output": "b"})").messages.dump(), kMessages);
  EXPECT_EQ(
      read(R"({"instruction": "a", "input": "c", "output": "b", "system": "s"})").messages.dump(),
      R"([{"role":"system","content":"s"},{"role":"user","content":"a\n\nc"},{"role":"assistant","content":"b"}])");
  EXPECT_EQ(read(R"({"system": "s", "conversations": [{"from": "human", "value": "a", "weight": 0}]})")
                .messages.dump(),
            R"([{"role":"system","content":"s"},{"role":"user","content":"a","weight":0}])");
  EXPECT_EQ(
      read(
          R"({"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]})")
          .messages.dump(),
      kMessages);
  // Replies of the prompt are not learned.
  EXPECT_EQ(
      read(
          R"({"prompt": [{"role": "assistant", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]})")
          .messages[0]
          .dump(),
      R"({"role":"assistant","content":"a","train":false})");
}

TEST(ChatRecords, OfTextsStayTexts) {
  const ChatRecord completion = read(R"({"prompt": "a", "completion": "b"})");
  EXPECT_TRUE(completion.messages.is_null() && completion.has_prompt);
  EXPECT_EQ(completion.prompt + "|" + completion.text, "a|b");
  EXPECT_EQ(read(R"({"body": "a"})", {.text_key = "body"}).text, "a");
  // Without a template, Alpaca's own text.
  const ChatRecord alpaca = read(R"({"instruction": "Add.", "input": "1, 2", "output": "3"})", {}, false);
  EXPECT_EQ(alpaca.prompt,
            "Below is an instruction that describes a task, paired with an input that provides further "
            "context. Write a response that "
            "appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1, 2\n\n### "
            "Response:\n");
  EXPECT_EQ(alpaca.text, "3");
}

TEST(ChatRecords, KeepToolsInTheirOrder) {
  const ChatRecord record = read(
      R"({"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"z\": 1, \"a\": 2}}"},
          {"from": "observation", "value": "3"}], "tools": "[{\"z\": 1, \"a\": 2}]"})");
  EXPECT_EQ(record.tools.dump(), R"([{"z":1,"a":2}])");
  EXPECT_EQ(
      record.messages[1].dump(),
      R"({"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"z":1,"a":2}}}]})");
  EXPECT_EQ(record.messages[2]["role"], "tool");
}

TEST(ChatRecords, HaveOtherNames) {
  const RecordNames names{.fields = {{"instruction", "question"}, {"output", "answer"}}};
  EXPECT_EQ(read(R"({"question": "a", "answer": "b", "messages": [1]})", names).messages.dump(), kMessages);
  const RecordNames inner{.fields = {{"messages", "dialog"}, {"role", "who"}, {"content", "said"}}};
  EXPECT_EQ(read(R"({"dialog": [{"who": "user", "said": "a"}, {"who": "assistant", "said": "b"}]})", inner)
                .messages.dump(),
            kMessages);
}

TEST(ChatRecords, OfTwoShapesAreRefused) {
  const char* both = R"({"messages": [{"role": "user", "content": "a"}], "prompt": "a", "completion": "b"})";
  EXPECT_EQ(error(both),
            "this reads as messages and as prompt and completion: data.fields: {messages: messages} chooses "
            "the first");
  EXPECT_EQ(read(both, {.fields = {{"messages", "messages"}}}).shape, ChatRecord::Shape::messages);
  EXPECT_EQ(read(both, {.fields = {{"prompt", "prompt"}}}).text, "b");
  // An empty field is not there.
  EXPECT_EQ(read(R"({"messages": [], "prompt": "a", "completion": "b"})").text, "b");
}

TEST(ChatRecords, SayWhatIsMissing) {
  EXPECT_EQ(error(R"({"conversations": [{"from": "narrator", "value": "a"}]})"),
            "message 1: \"from\" is \"narrator\": it is human, gpt, system, function_call or observation");
  EXPECT_EQ(error(R"({"conversations": [{"from": "function_call", "value": "f"}]})"),
            "message 1: \"value\": not valid JSON: it ends too early");
  EXPECT_EQ(error(R"({"instruction": "a"})"), "there is no \"output\" but \"instruction\"");
}

}  // namespace
}  // namespace hydrac::runtime
