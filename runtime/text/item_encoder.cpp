#include "runtime/text/item_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/text/chat_template.h"

namespace hydrac::runtime {

namespace {

using nlohmann::json;

std::string text_in(const json& object, const std::string& key) {
  const auto field = object.find(key);
  if (field == object.end())
    throw InputError(fmt::format("there is no \"{}\" but {}", key, json_keys(object)));
  if (!field->is_string())
    throw InputError(fmt::format("\"{}\" is not a string but {}", key, field->type_name()));
  return field->get<std::string>();
}

// null, and an empty list, object or text: a record of a table has them where it has nothing to say.
bool says_nothing(const json& value) {
  return value.empty() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

void refuse_unwritten(const json& object, std::span<const char* const> keys) {
  for (const char* key : keys) {
    if (const auto field = object.find(key); field != object.end() && !says_nothing(*field))
      throw InputError(
          fmt::format("hydrac's chat templates do not write \"{}\": leave it out, or write the text that the "
                      "model's own template makes of the record as prompt and completion",
                      key));
  }
}

// True if the value of weight, train or loss turns learning on.
bool is_on(const std::string& key, const json& value) {
  if (key == "weight" && (value == 0 || value == 1)) return value == 1;
  if (key != "weight" && value.is_boolean()) return value.get<bool>();
  throw InputError(
      fmt::format("\"{}\" is {}, not {}", key, value.dump(), key == "weight" ? "0 or 1" : "true or false"));
}

// The message's own statement about being learned, if its keys make one.
std::optional<bool> learned_of(const json& message) {
  static constexpr const char* kUnwritten[] = {"tool_calls",        "function_call", "tool_call_id", "name",
                                               "reasoning_content", "reasoning",     "thinking"};
  refuse_unwritten(message, kUnwritten);
  std::optional<bool> learned;
  for (const auto& [key, value] : message.items()) {
    if (key == "role" || key == "content" || says_nothing(value)) continue;
    if (key != "weight" && key != "train" && key != "loss")
      throw InputError(fmt::format(
          "unknown key {}; a message has role and content, and weight, train or loss where it is not "
          "to be learned",
          json(key).dump()));
    const bool on = is_on(key, value);
    if (learned && *learned != on)
      throw InputError(fmt::format("\"{}\" says that it is {}learned, and another key the opposite", key,
                                   on ? "" : "not "));
    learned = on;
  }
  return learned;
}

std::vector<ChatMessage> messages_of(const json& list) {
  if (!list.is_array() || list.empty()) throw InputError("\"messages\" is no list of messages");
  std::vector<ChatMessage> messages;
  for (const json& entry : list) {
    const std::string which = fmt::format("message {}", messages.size() + 1);
    if (!entry.is_object())
      throw InputError(fmt::format("{} is {}, not an object", which, entry.type_name()));
    try {
      const std::optional<bool> learned = learned_of(entry);
      messages.push_back({text_in(entry, "role"), text_in(entry, "content"), learned});
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", which, error.what()));
    }
    if (messages.back().role == "assistant" &&
        messages.back().content.find_first_not_of(" \t\r\n") == std::string::npos)
      throw InputError(fmt::format("{}: the reply is empty", which));
  }
  return messages;
}

}  // namespace

ItemEncoder::ItemEncoder(const Tokenizer& tokenizer, ItemFormat format)
    : tokenizer_(tokenizer), format_(std::move(format)) {
  if (!tokenizer_.end_of_text())
    throw InputError(
        "data.format: chat needs a tokenizer with a token that ends a text, and this one has none");
  if (format_.chat_template == "none") return;
  // Older Mistral models, whose spaces around [INST] come and go with the version.
  if (format_.chat_template == "mistral" && tokenizer_.name() == "sentencepiece")
    throw InputError(
        "data.chat_template: mistral is that of Mistral Nemo, and the tokenizer is of a model before it: "
        "write its text "
        "as prompt and completion");
  for (const std::string_view token : ChatTemplate::named(format_.chat_template).special_tokens()) {
    if (tokenizer_.encode(token).size() != 1)
      throw InputError(fmt::format("data.chat_template: {} is made of {}, which is no token of the tokenizer",
                                   format_.chat_template, token));
  }
}

void ItemEncoder::append(std::string_view text, bool is_context, Item& item) const {
  tokenizer_.encode_more(text, item.ids);
  item.is_context.resize(item.ids.size(), is_context);
}

void ItemEncoder::encode_messages(const json& list, Item& item, size_t context) const {
  if (format_.chat_template == "none")
    throw InputError(
        fmt::format("\"messages\" need a template, and hydrac does not run the model's own, which is Jinja: "
                    "data.chat_template is chatml, llama3, mistral or qwen, whichever writes the same{}{}",
                    format_.template_hint.empty() ? "" : "; ", format_.template_hint));
  std::vector<ChatMessage> messages = messages_of(list);
  for (ChatMessage& message : std::span(messages).first(context)) message.learned = false;
  const std::vector<ChatPiece> pieces = ChatTemplate::named(format_.chat_template).render(messages);
  std::string text;
  std::vector<size_t> ends;
  for (const ChatPiece& piece : pieces) ends.push_back((text += piece.text).size());
  // As one text, because a token may hold the end of one piece and the beginning of the next.
  std::vector<IdsAt> at = {{}};
  tokenizer_.encode_at(text, ends, item.ids, at);
  const auto is_learned = [&](ChatPiece::Kind kind) {
    return kind == ChatPiece::Kind::reply || (kind == ChatPiece::Kind::frame && !format_.replies_only);
  };
  item.is_context.resize(item.ids.size(), true);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (is_learned(pieces[i].kind))
      std::fill(item.is_context.begin() + static_cast<ptrdiff_t>(at[i].ended),
                item.is_context.begin() + static_cast<ptrdiff_t>(at[i + 1].begun), false);
  }
}

void ItemEncoder::check_prompt(const Item& item) const {
  const auto prompt = std::ranges::find(item.is_context, false) - item.is_context.begin();
  if (prompt == 0)
    throw InputError(
        "nothing stands before what is learned: the record has no prompt, which objective samples replies "
        "to");
  if (prompt > format_.most_prompt_tokens)
    throw InputError(
        fmt::format("the prompt is {} tokens long, and objective.prompt_tokens is {}: raise that (and "
                    "train.sequence_len with it), or shorten the prompt",
                    prompt, format_.most_prompt_tokens));
}

void ItemEncoder::end(Item& item) const {
  item.ids.push_back(*tokenizer_.end_of_text());
  item.is_context.push_back(false);
  tokenizer_.require_rows(std::span(item.ids).last(1));
}

void ItemEncoder::encode_completion(const std::string& prompt, const std::string& completion,
                                    Item& item) const {
  append(prompt, format_.replies_only, item);
  append(completion, false, item);
  end(item);
}

void ItemEncoder::add(const Item& item, uint32_t mark, std::vector<MarkedToken>& out) {
  for (size_t i = 0; i < item.ids.size(); ++i) {
    const bool begins = i == 0 && mark != MarkedToken::kIsRejected;
    out.push_back({static_cast<uint32_t>(item.ids[i]) | mark | (begins ? MarkedToken::kBegins : 0) |
                   (item.is_context[i] ? MarkedToken::kIsContext : 0)});
  }
}

// A pair's messages before its completions: the record's prompt, or what both begin with.
json prompt_of(const json& record) {
  if (record.contains("prompt")) return record["prompt"];
  json prompt = json::array();
  const json &chosen = record["chosen"], &rejected = record["rejected"];
  for (size_t i = 0; i < std::min(chosen.size(), rejected.size()) && chosen[i] == rejected[i]; ++i)
    prompt.push_back(chosen[i]);
  return prompt;
}

void ItemEncoder::encode_text_of_pair(const json& record, const char* key, Item& item) const {
  const json& completion = record[key];
  if (completion.is_array()) {
    const json prompt = prompt_of(record);
    json messages = prompt;
    for (size_t i = record.contains("prompt") ? 0 : prompt.size(); i < completion.size(); ++i)
      messages.push_back(completion[i]);
    encode_messages(messages, item, prompt.size());
  } else {
    encode_completion(text_in(record, "prompt"), completion.get<std::string>(), item);
  }
  if (!item.is_context[0])
    throw InputError(fmt::format("nothing stands before \"{}\": a pair has a prompt", key));
  if (std::ranges::find(item.is_context, false) == item.is_context.end())
    throw InputError(fmt::format("\"{}\" has no reply of the assistant", key));
}

void ItemEncoder::encode_pair(const json& record, std::vector<MarkedToken>& out) const {
  const json::value_t kind = json_field(record, "chosen").type();
  for (const char* key : {"chosen", "rejected"}) {
    const json& text = json_field(record, key);
    if (text.is_null())
      throw InputError(
          fmt::format("objective.name wants pairs, and there is no \"{}\" but {}", key, json_keys(record)));
    if (!text.is_string() && !text.is_array())
      throw InputError(
          fmt::format("\"{}\" is neither a string nor a list of messages but {}", key, text.type_name()));
    if (text.empty() || text == "") throw InputError(fmt::format("\"{}\" is empty", key));
    if (text.type() != kind || (record.contains("prompt") && record["prompt"].type() != kind))
      throw InputError("of prompt, chosen and rejected some are strings and others lists of messages");
  }
  Item chosen, rejected;
  encode_text_of_pair(record, "chosen", chosen);
  encode_text_of_pair(record, "rejected", rejected);
  add(chosen, 0, out);
  add(rejected, MarkedToken::kIsRejected, out);
}

void ItemEncoder::encode(const json& record, std::vector<MarkedToken>& out) const {
  if (!record.is_object()) throw InputError(fmt::format("this is {}, not a JSON object", record.type_name()));
  static constexpr const char* kUnwritten[] = {"tools", "functions", "documents", "chat_template_kwargs"};
  if (format_.pairs) {
    refuse_unwritten(record, kUnwritten);
    return encode_pair(record, out);
  }
  Item item;
  if (const auto messages = record.find("messages"); messages != record.end()) {
    refuse_unwritten(record, kUnwritten);
    encode_messages(*messages, item);
  } else if (record.contains("prompt") || record.contains("completion")) {
    const std::string prompt = text_in(record, "prompt"), completion = text_in(record, "completion");
    if (completion.empty()) throw InputError("the completion is empty");
    encode_completion(prompt, completion, item);
  } else if (record.contains(format_.text_key)) {
    append(text_in(record, format_.text_key), false, item);
    end(item);
  } else {
    throw InputError(fmt::format(
        "there is neither \"messages\", nor \"prompt\" and \"completion\", nor \"{}\" (data.text_key), "
        "but {}",
        format_.text_key, json_keys(record)));
  }
  if (format_.most_prompt_tokens > 0) check_prompt(item);
  add(item, 0, out);
}

}  // namespace hydrac::runtime
