// Records in the shapes of published data sets, read as one: a conversation as chat templates take it, or
// texts.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace hydrac::runtime {

struct RecordNames {
  std::string text_key = "text";
  std::map<std::string, std::string> fields = {};  // the data's name of each of kRecordFields (data/corpus.h)

  // The data's name of a field.
  std::string column(const std::string& field) const {
    const auto other = fields.find(field);
    return other == fields.end() ? field : other->second;
  }
};

struct ChatRecord {
  // A record has
  //   messages: [{role, content}, ...]       a conversation
  //   conversations: [{from, value}, ...]    the same, as ShareGPT has it
  //   prompt, completion                     texts, or lists of messages
  //   instruction, input, output             as Alpaca has it; input may be missing
  //   <text_key>                             a text
  enum class Shape { messages, conversations, completion, instruction, text };
  Shape shape = Shape::text;
  nlohmann::ordered_json messages = {};                               // as OpenAI has them; null for texts
  nlohmann::ordered_json tools = {}, documents = {}, variables = {};  // null where there are none
  std::string prompt = {}, text = {};  // without messages: what is read, what is learned
  bool has_prompt = false;
};

// "prompt and completion"
const char* to_string(ChatRecord::Shape shape);

// `has_template`: an instruction becomes a conversation, and else Alpaca's own text. InputError, without the
// record's place, for a record of none of these shapes, or of two.
ChatRecord read_chat_record(const nlohmann::ordered_json& record, const RecordNames& names,
                            bool has_template);

// null, and an empty list, object or text: a record of a table has them where it has nothing to say.
bool says_nothing(const nlohmann::ordered_json& value);

}  // namespace hydrac::runtime
