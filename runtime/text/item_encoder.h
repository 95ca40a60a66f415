// One record of a JSONL file or JSON array as a training item.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/data/items.h"
#include "runtime/data/tokenizer.h"

namespace hydrac::runtime {

struct ItemFormat {
  std::string text_key = "text";
  std::string chat_template = "none";  // or as ChatTemplate::named() takes it
  bool replies_only = true;            // of conversations and completions; false: all tokens are learned
  int64_t most_prompt_tokens = 0;      // above 0: a record must have a prompt, of so many tokens at most
  std::string template_hint = {};      // DataSettings::template_hint
  bool pairs = false;                  // a record is a prompt with two completions
};

// A record has
//   messages: [{role, content}, ...]   rendered by the chat template; replies are what the assistant says,
//   and
//                                      a message's weight (0, 1), train or loss (true, false) says otherwise
//   prompt, completion                 the completion is a reply, and ends with the tokenizer's end of text
//   <text_key>                         all of it is learned, with the end of text
// With ItemFormat::pairs it has
//   prompt, chosen, rejected           strings, of which completions are learned as above
//   chosen, rejected                   lists of messages, and a prompt that is one or is what both begin with
class ItemEncoder {
 public:
  // InputError where the tokenizer has no token that ends a text, or not those of the chat template.
  ItemEncoder(const Tokenizer& tokenizer, ItemFormat format);

  // Appends the record's item to `out`. InputError, without the record's place, for a record that is none of
  // these, an empty reply or completion, a role that the template does not know, what a message or a record
  // says and no template writes (tool calls, tools), text without ids, a prompt that is missing or too long.
  void encode(const nlohmann::json& record, std::vector<MarkedToken>& out) const;

 private:
  struct Item {
    std::vector<int32_t> ids;
    std::vector<bool> is_context;  // of each
  };
  void append(std::string_view text, bool is_context, Item& item) const;
  void check_prompt(const Item& item) const;
  // The first `context` messages are not learned.
  void encode_messages(const nlohmann::json& messages, Item& item, size_t context = 0) const;
  void encode_completion(const std::string& prompt, const std::string& completion, Item& item) const;
  void end(Item& item) const;
  void encode_text_of_pair(const nlohmann::json& record, const char* key, Item& item) const;
  void encode_pair(const nlohmann::json& record, std::vector<MarkedToken>& out) const;
  // `mark`: that all of its tokens have.
  static void add(const Item& item, uint32_t mark, std::vector<MarkedToken>& out);

  const Tokenizer& tokenizer_;
  ItemFormat format_;
};

}  // namespace hydrac::runtime
