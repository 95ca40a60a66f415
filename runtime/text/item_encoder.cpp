#include "runtime/text/item_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "runtime/base/quote.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"
#include "runtime/text/pair_record.h"

namespace hydrac::runtime {

namespace {

using Json = nlohmann::ordered_json;
using Kind = ChatPiece::Kind;

constexpr const char* kMarks[] = {"weight", "train", "loss"};
constexpr const char* kNames[] = {"name",
                                  "tool_call_id"};  // of a tool's answer, which many templates leave out
constexpr const char* kThoughts[] = {"reasoning_content", "reasoning", "thinking"};

// True if the value of weight, train or loss turns learning on.
bool is_on(const std::string& key, const Json& value) {
  if (key == "weight" && (value == 0 || value == 1)) return value == 1;
  if (key != "weight" && value.is_boolean()) return value.get<bool>();
  throw InputError(
      fmt::format("\"{}\" is {}, not {}", key, value.dump(), key == "weight" ? "0 or 1" : "true or false"));
}

bool is_mark(const std::string& key) {
  return std::ranges::find(kMarks, key) != std::end(kMarks);
}

// The message's own statement about being learned, if its keys make one.
std::optional<bool> learned_of(const Json& message) {
  std::optional<bool> learned;
  for (const auto& [key, value] : message.items()) {
    if (!is_mark(key) || says_nothing(value)) continue;
    const bool on = is_on(key, value);
    if (learned && *learned != on)
      throw InputError(fmt::format("\"{}\" says that it is {}learned, and another key the opposite", key,
                                   on ? "" : "not "));
    learned = on;
  }
  return learned;
}

std::string text_in(const Json& message, const char* key) {
  const auto field = message.find(key);
  if (field == message.end())
    throw InputError(fmt::format("there is no \"{}\" but {}", key, json_keys(message)));
  if (!field->is_string())
    throw InputError(fmt::format("\"{}\" is not a string but {}", key, field->type_name()));
  return field->get<std::string>();
}

bool is_blank(const Json& message) {
  const auto content = message.find("content");
  const bool is_said = content != message.end() && !says_nothing(*content) &&
                       !(content->is_string() && content->get_ref<const std::string&>().find_first_not_of(
                                                     " \t\r\n") == std::string::npos);
  const auto has = [&](const char* key) { return message.contains(key) && !says_nothing(message[key]); };
  return !is_said && !has("tool_calls") && !has("function_call") && std::ranges::none_of(kThoughts, has);
}

// A special token ends a reply: the white space that the template writes after it is not learned.
size_t end_of_reply(const Tokenizer& tokenizer, std::span<const int32_t> ids, size_t end) {
  size_t last = end;
  while (last > 0 && !tokenizer.is_special(ids[last - 1]) &&
         tokenizer.token_bytes(ids[last - 1]).find_first_not_of(" \t\r\n") == std::string_view::npos)
    --last;
  return last > 0 && tokenizer.is_special(ids[last - 1]) ? last : end;
}

}  // namespace

ItemEncoder::ItemEncoder(const Tokenizer& tokenizer, ItemFormat format)
    : tokenizer_(tokenizer), format_(std::move(format)) {
  if (!tokenizer_.end_of_text())
    throw InputError(
        "data.format: chat needs a tokenizer with a token that ends a text, and this one has none");
  if (format_.chat_template == "none") return;
  if (format_.jinja) {
    renderer_ = std::make_unique<JinjaRenderer>(*format_.jinja, format_.variables, format_.date);
    const Json variables = parse_ordered_json(format_.variables, "data.chat_template_kwargs");
    for (const auto& [name, value] : variables.items())
      if (!reads(name))
        throw InputError(fmt::format("data.chat_template_kwargs: {} does not read {}",
                                     format_.jinja->shown_as, in_quotes(name)));
    return;
  }
  // Older Mistral models, whose spaces around [INST] come and go with the version.
  if (format_.chat_template == "mistral" && tokenizer_.name() == "sentencepiece")
    throw InputError(
        "data.chat_template: mistral is that of Mistral Nemo, and the tokenizer is of a model before it: "
        "leave it out, and the model's own is run, or write its text as prompt and completion");
  for (const std::string_view token : ChatTemplate::named(format_.chat_template).special_tokens()) {
    if (tokenizer_.encode(token).size() != 1)
      throw InputError(fmt::format("data.chat_template: {} is made of {}, which is no token of the tokenizer",
                                   format_.chat_template, token));
  }
}

// A template drops in silence what it never names. Thoughts have three names, as in transformers.
bool ItemEncoder::reads(const std::string& name) const {
  const auto is_named = [&](std::string_view word) {
    return format_.jinja->source.find(word) != std::string::npos ||
           format_.jinja->with_tools.find(word) != std::string::npos;
  };
  const bool is_thought = std::ranges::find(kThoughts, name) != std::end(kThoughts);
  return is_named(name) || std::ranges::find(kNames, name) != std::end(kNames) ||
         (is_thought && (is_named("reasoning_content") || is_named("thinking")));
}

void ItemEncoder::require_read(const std::string& name, const Json& value) const {
  if (says_nothing(value) || (format_.jinja && reads(name))) return;
  if (format_.jinja)
    throw InputError(fmt::format("{} does not read {}", format_.jinja->shown_as, in_quotes(name)));
  throw InputError(
      fmt::format("data.chat_template: {} does not write {} but role and content (beside weight, train and "
                  "loss): own runs the model's template",
                  format_.chat_template, in_quotes(name)));
}

// True if a format of hydrac's can write it: role and content alone.
bool ItemEncoder::is_plain(const ChatRecord& record) const {
  if (!format_.jinja) return true;
  if (format_.plain_format.empty() || format_.variables != "{}" || !record.tools.is_null() ||
      !record.documents.is_null() || !record.variables.is_null())
    return false;
  return std::ranges::all_of(record.messages, [](const Json& message) {
    for (const auto& [key, value] : message.items()) {
      if (key == "role" && value != "system" && value != "user" && value != "assistant") return false;
      if (key == "content" ? !value.is_string() : key != "role" && !is_mark(key) && !says_nothing(value))
        return false;
    }
    return message.contains("role") && message.contains("content");
  });
}

std::vector<ChatMessage> ItemEncoder::messages_of(const ChatRecord& record, bool by_jinja) const {
  std::vector<ChatMessage> messages;
  for (const Json& entry : record.messages) {
    try {
      for (const auto& [key, value] : entry.items())
        if (key != "role" && key != "content" && !is_mark(key)) require_read(key, value);
      ChatMessage& message = messages.emplace_back(
          text_in(entry, "role"), by_jinja ? "" : text_in(entry, "content"), learned_of(entry));
      if (message.role != "assistant" && by_jinja && message.kind() == found_kind())
        throw InputError(
            "weight, train and loss are for what the assistant says, where the model's own template is run");
      if (message.role == "assistant" && is_blank(entry)) throw InputError("the reply is empty");
    } catch (const InputError& error) {
      throw InputError(fmt::format("message {}: {}", &entry - &record.messages[0] + 1, error.what()));
    }
  }
  if (!format_.last_only) return messages;
  const auto last = std::find_if(messages.rbegin(), messages.rend(),
                                 [](const ChatMessage& m) { return m.role == "assistant"; });
  for (auto it = messages.rbegin(); it != messages.rend(); ++it)
    if (it != last && it->role == "assistant" && !it->learned) it->learned = false;
  return messages;
}

void ItemEncoder::append(std::string_view text, bool is_context, Item& item) const {
  tokenizer_.encode_more(text, item.ids);
  item.is_context.resize(item.ids.size(), is_context);
}

void ItemEncoder::encode_messages(const PendingItem& pending, Item& item) const {
  const std::vector<ChatPiece> pieces = pieces_of(pending);
  std::string text;
  std::vector<size_t> ends;
  for (const ChatPiece& piece : pieces) ends.push_back((text += piece.text).size());
  // As one text, because a token may hold the end of one piece and the beginning of the next.
  std::vector<IdsAt> at = {{}};
  tokenizer_.encode_at(text, ends, item.ids, at);
  const auto is_learned = [&](Kind kind) {
    return kind == Kind::reply || (kind == Kind::frame && !format_.replies_only);
  };
  const bool trims = pending.rendered && !pending.rendered->has_blocks && format_.replies_only;
  item.is_context.resize(item.ids.size(), true);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!is_learned(pieces[i].kind)) continue;
    const size_t end = trims ? end_of_reply(tokenizer_, item.ids, at[i + 1].begun) : at[i + 1].begun;
    for (size_t id = at[i].ended; id < end; ++id) item.is_context[id] = false;
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

std::vector<PendingItem> ItemEncoder::prepare(const Json& record) const {
  if (!format_.pairs) return {prepare_text(record)};
  try {
    const auto [chosen, rejected] = read_pair(record, format_.names);
    std::vector<PendingItem> pair = {prepare_text(chosen), prepare_text(rejected)};
    pair[0].of_pair = kChosen;
    pair[1].of_pair = kRejected;
    return pair;
  } catch (const InputError& error) {
    return {PendingItem{.error = error.what()}};
  }
}

PendingItem ItemEncoder::prepare_text(const Json& record) const {
  PendingItem item;
  try {
    item.record = read_chat_record(record, format_.names, format_.chat_template != "none");
    if (item.record.messages.is_null()) return item;
    if (format_.chat_template == "none")
      throw InputError(
          "\"messages\" need a chat template, and data.chat_template is none: own runs the one beside "
          "data.tokenizer, if there is one, chatml, llama3, mistral and qwen are hydrac's, and "
          "data.chat_template_jinja names a file");
    require_read("tools", item.record.tools);
    require_read("documents", item.record.documents);
    for (const auto& [name, value] : item.record.variables.items()) require_read(name, value);
    const bool by_jinja = !is_plain(item.record);
    item.messages = messages_of(item.record, by_jinja);
    if (by_jinja) item.rendered.emplace();
  } catch (const InputError& error) {
    item.error = error.what();
  }
  return item;
}

Json ItemEncoder::conversation_of(const PendingItem& item) const {
  Json conversation = {{"messages", Json::array()}, {"replies", Json::array()}};
  for (const Json& message : item.record.messages) {
    Json& plain = conversation["messages"].emplace_back(message);
    for (const char* mark : kMarks) plain.erase(mark);
  }
  for (size_t i = 0; i < item.messages.size(); ++i)
    if (item.messages[i].role == "assistant" && item.messages[i].kind() == found_kind())
      conversation["replies"].push_back(i);
  if (!item.record.tools.is_null()) conversation["tools"] = item.record.tools;
  if (!item.record.documents.is_null()) conversation["documents"] = item.record.documents;
  if (!item.record.variables.is_null()) conversation["variables"] = item.record.variables;
  return conversation;
}

void ItemEncoder::check_text_of_pair(const Item& item, const char* key) {
  if (!item.is_context[0])
    throw InputError(fmt::format("nothing stands before \"{}\": a pair has a prompt", key));
  if (std::ranges::find(item.is_context, false) == item.is_context.end())
    throw InputError(fmt::format("\"{}\" has no reply of the assistant", key));
}

void ItemEncoder::send(std::span<PendingItem> batch) {
  Json conversations = Json::array();
  for (const PendingItem& item : batch)
    if (item.error.empty() && item.rendered) conversations.push_back(conversation_of(item));
  if (!conversations.empty()) renderer_->send(conversations);
}

void ItemEncoder::receive(std::span<PendingItem> batch) {
  const auto is_sent = [](const PendingItem& item) { return item.error.empty() && item.rendered; };
  if (std::ranges::none_of(batch, is_sent)) return;
  std::vector<JinjaRenderer::Text> texts = renderer_->receive();
  auto next = texts.begin();
  for (PendingItem& item : batch) {
    if (!is_sent(item)) continue;
    item.error = next->error;
    item.rendered = std::move(*next++);
  }
}

// Pieces of a rendered conversation, or those of a format of hydrac's.
std::vector<ChatPiece> ItemEncoder::pieces_of(const PendingItem& item) const {
  if (!item.rendered)
    return ChatTemplate::named(format_.jinja ? format_.plain_format : format_.chat_template)
        .render(item.messages);
  const auto& [text, places, has_blocks, error] = *item.rendered;
  std::vector<Kind> kinds;
  for (const ChatMessage& message : item.messages)
    if (message.role == "assistant" && (has_blocks || message.kind() == found_kind()))
      kinds.push_back(message.kind());
  const bool is_uniform = std::ranges::all_of(kinds, [&](Kind kind) { return kind == kinds.front(); });
  if (places.size() != kinds.size() && !is_uniform)
    throw InputError(
        fmt::format("{} writes {} {{% generation %}} blocks for {} replies, so that none of these can be "
                    "left out of what is learned",
                    format_.jinja->shown_as, places.size(), kinds.size()));
  std::vector<ChatPiece> pieces;
  size_t end = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto [from, to] = places[i];
    pieces.push_back({text.substr(end, from - end), Kind::frame});
    pieces.push_back({text.substr(from, to - from), kinds[places.size() == kinds.size() ? i : 0]});
    end = to;
  }
  pieces.push_back({text.substr(end), Kind::frame});
  return pieces;
}

void ItemEncoder::encode(const PendingItem& pending, std::vector<MarkedToken>& out) const {
  if (!pending.error.empty()) throw InputError(pending.error);
  Item item;
  if (!pending.record.messages.is_null()) {
    encode_messages(pending, item);
  } else {
    if (pending.record.has_prompt) append(pending.record.prompt, format_.replies_only, item);
    append(pending.record.text, false, item);
    item.ids.push_back(*tokenizer_.end_of_text());
    item.is_context.push_back(false);
    tokenizer_.require_rows(std::span(item.ids).last(1));
  }
  if (format_.most_prompt_tokens > 0) check_prompt(item);
  if (pending.of_pair) check_text_of_pair(item, pending.of_pair);
  const uint32_t mark = pending.of_pair == kRejected ? MarkedToken::kIsRejected : 0;
  for (size_t i = 0; i < item.ids.size(); ++i)
    out.push_back({static_cast<uint32_t>(item.ids[i]) | mark |
                   (i == 0 && mark == 0 ? MarkedToken::kBegins : 0) |
                   (item.is_context[i] ? MarkedToken::kIsContext : 0)});
}

}  // namespace hydrac::runtime
