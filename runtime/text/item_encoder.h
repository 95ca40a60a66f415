// Records of JSONL files, JSON arrays and tables as training items.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/items.h"
#include "runtime/data/tokenizer.h"
#include "runtime/text/chat_record.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/jinja_renderer.h"

namespace hydrac::runtime {

struct ItemFormat {
  RecordNames names = {};
  std::string chat_template = "none";       // none, own, or as ChatTemplate::named() takes it
  std::optional<JinjaTemplate> jinja = {};  // for own
  std::string plain_format =
      {};  // for own: what writes conversations without tools and the like as it does, or empty
  std::string variables = "{}";  // for own, as JSON
  std::string date = "2024-07-26";
  bool replies_only = true;        // of conversations and completions; false: all tokens are learned
  bool last_only = false;          // the last reply of a conversation
  int64_t most_prompt_tokens = 0;  // above 0: a record must have a prompt, of so many tokens at most
  bool pairs = false;              // a record is a pair (pair_record.h), and becomes two texts of one item
};

// A text on its way to an item: a record, or one of a pair.
struct PendingItem {
  std::string error = {};  // why it becomes none, without the record's place
  ChatRecord record = {};
  std::vector<ChatMessage> messages = {};
  std::optional<JinjaRenderer::Text> rendered = {};  // by the model's own template, once it is
  const char* of_pair = nullptr;                     // kChosen, kRejected
};

// Replies are what the assistant says; a message's weight (0, 1), train or loss (true, false) says otherwise.
// Completions and texts end with the tokenizer's end of text.
class ItemEncoder {
 public:
  // InputError where the tokenizer has no token that ends a text, or not those of the chat template, or the
  // template reads none of the variables.
  ItemEncoder(const Tokenizer& tokenizer, ItemFormat format);

  // The record's text, or those of a pair.
  std::vector<PendingItem> prepare(const nlohmann::ordered_json& record) const;
  // Batches of items pass these in order. Between the two, as many batches as ahead() says are rendered side
  // by side. InputError as JinjaRenderer's.
  void send(std::span<PendingItem> batch);
  void receive(std::span<PendingItem> batch);
  size_t ahead() const { return renderer_ ? renderer_->parallel() : 0; }
  // Appends the item to `out`. InputError, without the record's place, for a record of no known shape, an
  // empty reply or completion, what the template does not read or refuses, text without ids, a prompt that is
  // missing or too long.
  void encode(const PendingItem& item, std::vector<MarkedToken>& out) const;

 private:
  struct Item {
    std::vector<int32_t> ids;
    std::vector<bool> is_context;  // of each
  };
  void append(std::string_view text, bool is_context, Item& item) const;
  void check_prompt(const Item& item) const;
  static void check_text_of_pair(const Item& item, const char* key);
  PendingItem prepare_text(const nlohmann::ordered_json& record) const;
  bool reads(const std::string& name) const;
  void require_read(const std::string& name, const nlohmann::ordered_json& value) const;
  // The replies whose place in a rendered conversation counts.
  ChatPiece::Kind found_kind() const {
    return format_.replies_only ? ChatPiece::Kind::reply : ChatPiece::Kind::masked;
  }
  bool is_plain(const ChatRecord& record) const;
  std::vector<ChatMessage> messages_of(const ChatRecord& record, bool by_jinja) const;
  nlohmann::ordered_json conversation_of(const PendingItem& item) const;
  std::vector<ChatPiece> pieces_of(const PendingItem& item) const;
  void encode_messages(const PendingItem& item, Item& out) const;

  const Tokenizer& tokenizer_;
  ItemFormat format_;
  std::unique_ptr<JinjaRenderer> renderer_;  // for own
};

}  // namespace hydrac::runtime
